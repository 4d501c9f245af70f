"""One Flower app, run by Flower and run by us."""
