"""with-latecomer: a Flower app whose strategy is a recipe of latecomer."""
