"""Models from elsewhere, as they are: one file each, and nothing is imported before it is asked for."""
