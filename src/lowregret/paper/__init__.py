"""Every figure and table of the paper as a program."""
