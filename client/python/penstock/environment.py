"""Reads this process's rank in the job from the environment, as torchrun and similar launchers set
it.

Arguments take precedence over variables; a value that is neither passed nor set is None. This
module does not read the variables that only the daemon or libpenstock uses (PENSTOCK_SOCKET,
PENSTOCK_JOB, PENSTOCKD, ...); docs/reference/python.md lists them.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple, Optional

from .errors import ArgumentError

__all__ = ["Ranks", "Unsaid", "has_job", "local_rank", "ranks", "unsaid_ranks"]

# Launchers that do not set WORLD_SIZE: the variables with the number of processes, and with the
# process's own number. srun comes last: within a Slurm job, mpirun starts its helpers with srun,
# and the ranks inherit srun's variables.
_LAUNCHERS = {
    "mpirun": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    "mpiexec": ("PMI_SIZE", "PMI_RANK"),
    "srun": ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
}


class Ranks(NamedTuple):
    """The options of the stream; None leaves an option to the daemon."""

    share: Optional[str]
    rank: Optional[int]
    world_size: Optional[int]


def _number(variable: str, expected: str) -> Optional[int]:
    text = os.environ.get(variable, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ArgumentError(
            f"the environment variable {variable} is {text!r}: expected {expected}, as torchrun sets it; correct or "
            "unset it"
        )
    return int(text)


def local_rank() -> Optional[int]:
    """The number of this process on its node, which is also the number of its device."""
    return _number("LOCAL_RANK", "the number of this process on its node")


def has_job() -> bool:
    """Whether this process may belong to a job with other processes. client/lib/job.c makes the
    job's name from the same variables."""
    told = {name for name in ("PENSTOCK_JOB", "SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT") if os.environ.get(name)}
    torch = os.environ.get("TORCHELASTIC_RUN_ID", "none") not in ("", "none")
    return torch or bool(told & {"PENSTOCK_JOB", "SLURM_JOB_ID"}) or told >= {"MASTER_ADDR", "MASTER_PORT"}


def _from_variables() -> "tuple[Optional[int], Optional[int]]":
    return (
        _number("RANK", "a number from 0 to WORLD_SIZE - 1"),
        _number("WORLD_SIZE", "the number of ranks, 1 or more"),
    )


class Unsaid(NamedTuple):
    """Ranks that RANK and WORLD_SIZE do not describe: who started them, how many there are, and the
    Python expressions for rank and world size."""

    whose: str
    size: int
    rank: str
    world_size: str


def _process_group() -> Any:
    """torch.distributed, if it has a process group; else None. Does not import torch: a program
    with a process group has already imported it."""
    distributed = sys.modules.get("torch.distributed")
    ready = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if ready else None


def _from_environment() -> "tuple[Optional[int], Optional[int]]":
    """Rank and world size. Some launchers, such as Lightning's for ddp, set only one of the two
    variables; the process group knows both."""
    rank, world_size = _from_variables()
    if (rank is None) == (world_size is None):
        return rank, world_size
    if world_size == 1:
        return 0, 1
    there, missing = ("RANK", "WORLD_SIZE") if world_size is None else ("WORLD_SIZE", "RANK")
    group = _process_group()
    if group is None:
        raise ArgumentError(
            f"the environment variable {there} is set and {missing} is not, and torch.distributed has no process group "
            "that knows it: pass rank= and world_size=, or create the loader after init_process_group(); one process "
            "that reads everything passes rank=0, world_size=1"
        )
    return int(group.get_rank()), int(group.get_world_size())


def _of_torch() -> Optional[Unsaid]:
    distributed = _process_group()
    if distributed is None:
        return None
    size = int(distributed.get_world_size())
    return Unsaid("torch.distributed", size, "torch.distributed.get_rank()", "torch.distributed.get_world_size()")


def _of_launcher() -> Optional[Unsaid]:
    for whose, (size, rank) in _LAUNCHERS.items():
        text = os.environ.get(size, "")
        if text.isascii() and text.isdigit() and os.environ.get(rank):
            return Unsaid(whose, int(text), f'int(os.environ["{rank}"])', f'int(os.environ["{size}"])')
    return None


def unsaid_ranks() -> Optional[Unsaid]:
    """The ranks of torch's process group or of the launcher. None if there is only one rank, or if
    RANK and WORLD_SIZE are set."""
    if _from_variables() != (None, None):
        return None
    found = _of_torch() or _of_launcher()
    return found if found is not None and found.size > 1 else None


def _check(rank: int, world_size: int, whence: str) -> None:
    if world_size < 1:
        raise ArgumentError(f"{whence}world_size is {world_size}: expected the number of ranks, 1 or more")
    if not 0 <= rank < world_size:
        raise ArgumentError(
            f"{whence}rank is {rank} and world_size is {world_size}: expected a rank from 0 to {world_size - 1}"
        )


def ranks(share: Optional[str], rank: Optional[int], world_size: Optional[int]) -> Ranks:
    """The rank of this process among those that read together. share="all" needs no ranks."""
    if share == "all":
        if rank is not None or world_size is not None:
            raise ArgumentError(
                'rank and world_size have a meaning only with share="split"; with share="all" every trainer gets every '
                "batch: leave them out"
            )
        return Ranks("all", None, None)
    whence = ""
    if rank is None and world_size is None:
        rank, world_size = _from_environment()
        whence = "in the environment, "
    if (rank is None) != (world_size is None):
        there, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ArgumentError(
            f"{there} is set and {missing} is not: pass both, or neither if the environment has RANK and WORLD_SIZE, "
            "as with torchrun"
        )
    if rank is None or world_size is None:
        if share == "split":
            raise ArgumentError(
                'share="split" needs the rank of this process: pass rank= and world_size=, or start the job with '
                "torchrun, which sets RANK and WORLD_SIZE"
            )
        return Ranks(None, None, None)
    _check(rank, world_size, whence)
    if world_size == 1 and share is None:
        return Ranks(None, None, None)
    return Ranks("split", rank, world_size)
