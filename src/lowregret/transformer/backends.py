"""Which fused attention to use."""

import contextlib
from collections.abc import Iterator

from torch.nn.attention import SDPBackend, sdpa_kernel

ORDER = (
    SDPBackend.CUDNN_ATTENTION,  # on Hopper the fastest, forwards and backwards
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
)


@contextlib.contextmanager
def attention(order: tuple[SDPBackend, ...] = ORDER) -> Iterator[None]:
    """Inside, the first of these that can do what is asked is used."""
    with sdpa_kernel(list(order), set_priority=True):
        yield
