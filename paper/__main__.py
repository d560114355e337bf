"""``python -m paper``: its commands."""

from .app import main

main()
