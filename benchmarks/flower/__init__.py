"""One Flower app, run by Flower and by this project."""
