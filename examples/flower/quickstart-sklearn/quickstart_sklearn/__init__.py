"""quickstart-sklearn: a Flower app with scikit-learn."""
