"""What is written to a disk: whole or not at all, never over an input, by one process at a time; what is read."""

from .compiling import compiled, is_compiled, to_read
from .journal import Journal, lines_in
from .lock import lock_of, locked
from .paths import a_path, apart, in_folder, to_write, writable
from .reading import array_in, handed_over, text_in
from .room import in_memory, on_disk
from .writing import drafted, replace, replace_all, sweep

__all__ = [
    "Journal",
    "a_path",
    "apart",
    "array_in",
    "compiled",
    "drafted",
    "handed_over",
    "in_folder",
    "in_memory",
    "is_compiled",
    "lines_in",
    "lock_of",
    "locked",
    "on_disk",
    "replace",
    "replace_all",
    "sweep",
    "text_in",
    "to_read",
    "to_write",
    "writable",
]
