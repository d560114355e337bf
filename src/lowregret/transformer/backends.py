"""Which device to use, and which fused attention on it."""

import contextlib
from collections.abc import Iterator

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

ORDER = (
    SDPBackend.CUDNN_ATTENTION,  # on Hopper the fastest, forwards and backwards
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
)


def device_named(device: str | torch.device) -> torch.device:
    """The device of that name; one that is not there is refused.

    >>> device_named("cpu")
    device(type='cpu')
    """
    there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    there += ["mps"] if torch.backends.mps.is_available() else []
    name = str(device)
    if name not in there and not (name == "cuda" and "cuda:0" in there):
        raise ValueError(f"device must be one of {', '.join(there)} here, got {name!r}")
    return torch.device(name)


def machine(device: torch.device) -> dict[str, str]:
    """What a run is on, to be written down."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} CPU threads"
    return {"torch": torch.__version__, "device": name}


def memory(device: torch.device) -> float | None:
    """All the memory of a GPU, in bytes; None: that of the machine."""
    return float(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else None


@contextlib.contextmanager
def attention(order: tuple[SDPBackend, ...] = ORDER) -> Iterator[None]:
    """Inside, the first of these that can do what is asked is used."""
    with sdpa_kernel(list(order), set_priority=True):
        yield
