"""Every figure, table and statement of the paper as a program."""
