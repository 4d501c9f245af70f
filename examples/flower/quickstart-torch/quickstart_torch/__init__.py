"""quickstart-torch: a Flower app with PyTorch."""
