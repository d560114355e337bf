"""``python -m lowregret``: the command line."""

from .cli import main

main()
