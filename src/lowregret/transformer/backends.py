"""Which device to use, which fused attention on it, and whether the same sums are taken in the same order twice."""

import atexit
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..arrays import Array, namespace, to_numpy

# One process or many (``torchrun``): who I am, which rows of a batch are mine, and sums over all of us.


class Team(NamedTuple):
    """The processes that train together.

    >>> Team(rank=1, size=2, device="cpu").rows(8)
    slice(1, None, 2)
    """

    rank: int
    size: int
    device: str

    @classmethod
    def here(cls) -> "Team":
        """As torchrun's environment says; a team of one without it."""
        cuda = torch.cuda.is_available()
        if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
            return cls(0, 1, "cuda" if cuda else "cpu")
        local = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if cuda else "cpu"
        if not dist.is_initialized():
            if cuda:
                torch.cuda.set_device(local)
            dist.init_process_group("nccl" if cuda else "gloo")
            atexit.register(dist.destroy_process_group)  # a process that leaves without it may take the other down
        return cls(dist.get_rank(), dist.get_world_size(), local)

    @property
    def first(self) -> bool:
        return self.rank == 0

    def rows(self, n: int) -> slice:
        """My rows of a batch of ``n``: every so many, so that each of us has some of every part."""
        if n < self.size:
            raise ValueError(f"batch must be at least the number of processes, got {n} and {self.size}")
        return slice(self.rank, None, self.size)

    def shared(self, module: nn.Module) -> nn.Module:
        """The module with its gradients averaged over processes."""
        return module if self.size == 1 else nn.parallel.DistributedDataParallel(module)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over processes."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def told(self, thing: Any) -> Any:
        """What the first process has."""
        if self.size == 1:
            return thing
        box = [thing]
        dist.broadcast_object_list(box, src=0, device=torch.device(self.device))
        return box[0]

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()


# Tokens to where the weights are, and what comes out back to where the tokens were.


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


ORDER = (
    SDPBackend.CUDNN_ATTENTION,  # on Hopper the fastest, forwards and backwards
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
)


_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


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
def attention(order: tuple[SDPBackend, ...] = ORDER) -> Iterator[None]:
    """Inside, the first of these that can do what is asked is used; the plain one alone if runs are to repeat."""
    repeats = torch.are_deterministic_algorithms_enabled()  # the fused ones add up gradients in any order
    with sdpa_kernel([SDPBackend.MATH] if repeats else list(order), set_priority=True):
        yield


@contextlib.contextmanager
def deterministic(asked: bool = True) -> Iterator[None]:
    """Inside, a seed gives the same model twice on one GPU, where torch can; attention is not fused then, and slower.

    Torch warns of what it cannot repeat. A CPU repeats without it.
    """
    before = torch.are_deterministic_algorithms_enabled(), os.environ.get(_WORKSPACE)
    if asked:
        os.environ.setdefault(_WORKSPACE, ":4096:8")  # without it cuBLAS may sum in another order; read when it begins
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        if before[1] is None:
            os.environ.pop(_WORKSPACE, None)
