"""The pictures of the pages, and the programs that draw them."""
