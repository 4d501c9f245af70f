"""Price files: how they are read, and those that come with the program."""
