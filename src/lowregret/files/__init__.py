"""Files: written whole or not at all, never over an input, by one process at a time; reading; pools of processes."""

from .lock import lock_of, locked
from .paths import a_path, apart, in_folder, to_write, writable
from .pools import processes
from .reading import array_in, handed_over, in_memory, on_disk, text_in
from .writing import UNREADABLE, drafted, header_in, intact, is_stamped, replace, replace_all, stamp, sweep

__all__ = [
    "UNREADABLE",
    "a_path",
    "apart",
    "array_in",
    "drafted",
    "handed_over",
    "header_in",
    "in_folder",
    "in_memory",
    "intact",
    "is_stamped",
    "lock_of",
    "locked",
    "on_disk",
    "processes",
    "replace",
    "replace_all",
    "stamp",
    "sweep",
    "text_in",
    "to_write",
    "writable",
]
