"""The command line: ``lowregret audit | gate | plan | example | init``"""

from .app import main

__all__ = ["main"]
