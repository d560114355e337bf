"""Arrays to and from a device, which fused attention to use, and how work on a GPU is recorded once and replayed."""

import contextlib
import os
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..arrays import Array, namespace, to_numpy


def machine(device: torch.device) -> dict[str, str]:
    """What a run is on, to be written down."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} CPU threads"
    return {"torch": torch.__version__, "device": name}


def as_tensor(tokens: Array, device: torch.device) -> Tensor:
    """The tokens as a tensor on that device."""
    if isinstance(tokens, Tensor):
        return tokens.to(device)
    return torch.as_tensor(np.array(to_numpy(tokens), dtype=np.int64), device=device)


def as_kind(values: Tensor, like: Array) -> Array:
    """The values as the kind of array that ``like`` is, where it is."""
    xp = namespace(like)
    if xp is np:
        return values.cpu().numpy()
    return values.to(like.device) if isinstance(like, Tensor) else xp.asarray(values.cpu().numpy())


class Replay:
    """What a function does on a GPU, recorded once: the same kernels on the same memory, without Python between them.

    What it returns is written over by the next replay. All that it compiles or makes room for must have been there
    before, by a call on the same stream (``recording_stream``).
    """

    def __init__(
        self, does: Callable[[], Tensor], stream: torch.cuda.Stream, random: torch.Generator | None = None
    ) -> None:
        self.graph = torch.cuda.CUDAGraph()
        if random is not None:
            self.graph.register_generator_state(random)  # it draws by the seed that it has at each replay
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            self.graph.capture_begin()
            try:
                self.result = does()
            finally:
                self.graph.capture_end()

    def __call__(self) -> Tensor:
        self.graph.replay()
        return self.result


@contextlib.contextmanager
def recording_stream(stream: torch.cuda.Stream) -> Iterator[None]:
    """Inside, work goes to this stream; what comes after waits for it."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


@contextlib.contextmanager
def attention() -> Iterator[None]:
    """Inside, the fastest attention there is; the plain one if runs are to repeat.

    The fused ones add up gradients in any order. On Hopper cuDNN's is the fastest, forwards and backwards; on other
    GPUs flash attention is.
    """
    order = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9:
        order.insert(0, SDPBackend.CUDNN_ATTENTION)
    if torch.are_deterministic_algorithms_enabled():
        order = [SDPBackend.MATH]
    with sdpa_kernel(order, set_priority=True):
        yield


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Inside, a seed gives the same model twice on one GPU, where torch can; attention is not fused then, and slower.

    Torch warns of what it cannot repeat. A CPU repeats without it.
    """
    # Without it cuBLAS may sum in another order; it is read when cuBLAS begins.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
