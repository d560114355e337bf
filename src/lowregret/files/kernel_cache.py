"""Compiled code on the disk with a digest: damaged code is not run but compiled again (extra: ``fast``)."""

import contextlib
import hashlib
import logging
import pickle
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

LOG = logging.getLogger("lowregret")


class KernelCache(FunctionCache):
    """Numba's cache of one function, in files of its own, which may be damaged or refused by the disk."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _Sealed(self._cache_path, f"{self._impl.filename_base}-sealed", stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # reading nonsense may raise anything
            LOG.warning(
                "%s: the compiled code of %s is damaged (%s: %s), so it is compiled again",
                *(self._cache_path, self._py_func.__qualname__, type(error).__name__, error),
            )
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            LOG.warning(
                "%s: the compiled code of %s could not be kept (%s), so the next process compiles it again",
                *(self._cache_path, self._py_func.__qualname__, error.strerror or error),
            )


class _Sealed(IndexDataCacheFile):
    """With a digest of each file's content and purpose: machine code with one bit changed may do anything."""

    def save(self, key: Any, data: Any) -> None:
        body = self._dump(data)
        super().save(key, (_seal(key, body), body))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        if found is None:
            return None
        seal, body = found
        if seal != _seal(key, body):
            raise ValueError("its digest does not match its content")
        return pickle.loads(body)


def _seal(key: Any, body: bytes) -> str:
    return hashlib.sha256(repr(key).encode() + b"\0" + body).hexdigest()
