"""What is written to a disk: whole or not at all, never over an input, by one process at a time."""

from .lock import locked
from .paths import a_path, apart, in_folder, to_write, writable
from .room import in_memory, on_disk
from .writing import drafted, replace, replace_all, sweep

__all__ = [
    "a_path",
    "apart",
    "drafted",
    "in_folder",
    "in_memory",
    "locked",
    "on_disk",
    "replace",
    "replace_all",
    "sweep",
    "to_write",
    "writable",
]
