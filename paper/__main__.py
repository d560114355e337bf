"""``python -m paper``: its commands, or which extra they need."""

import sys

try:
    from .app import app
except ModuleNotFoundError as error:
    sys.exit(f"the command line needs {error.name}: pip install 'lowregret[cli]'")
app(prog_name="python -m paper")
