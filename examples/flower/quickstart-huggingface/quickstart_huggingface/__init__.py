"""quickstart_huggingface: a Flower app with a small BERT."""
