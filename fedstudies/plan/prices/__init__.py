"""Price files that come with the program."""
