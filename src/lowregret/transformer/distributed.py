"""One process or many (``torchrun``): who I am, which rows of a batch are mine, and sums over all of us."""

import atexit
import os
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn


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
