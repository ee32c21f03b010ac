"""The rank of this process: from arguments, torch.distributed, or the environment.

The first of these that says anything counts:

  1. rank= and world_size=
  2. RANK and WORLD_SIZE, as torchrun sets them
  3. the process group of torch.distributed
  4. WORLD_SIZE with LOCAL_RANK and NODE_RANK, as Lightning sets them for ddp
  5. the variables of srun, mpirun or mpiexec; the loader warns that it took them

2 and 3 must agree. 3 and 5 do not count for a loader with group= or of a named stream, whose
trainers share batches. A value that is neither passed nor set is None. This module does not read
the variables that only the daemon or libpenstock uses (PENSTOCK_SOCKET, PENSTOCK_JOB, PENSTOCKD,
...); docs/reference/python.md lists them.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple, Optional

from .errors import ArgumentError

__all__ = ["Launcher", "Ranks", "has_job", "launcher", "local_rank", "ranks"]

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


class Launcher(NamedTuple):
    """The ranks of a launcher that sets neither RANK nor WORLD_SIZE: its name, and the names of its
    variables."""

    whose: str
    rank: int
    world_size: int
    rank_variable: str
    size_variable: str


def _process_group() -> "Optional[tuple[int, int]]":
    """Rank and world size of torch.distributed's process group; None if it has none. Does not
    import torch: a program with a process group has already imported it."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())


def _agreeing(group: "tuple[int, int]", rank: Optional[int], world_size: Optional[int]) -> "tuple[int, int]":
    """The group's rank and world size, if the variables that are set do not contradict them."""
    for name, said, its in (("RANK", rank, group[0]), ("WORLD_SIZE", world_size, group[1])):
        if said not in (None, its):
            raise ArgumentError(
                f"the environment variable {name} is {said}, and in torch.distributed's process group this process is "
                f"rank {group[0]} of {group[1]}: pass rank= and world_size= to say which of them counts, or correct the "
                "variable"
            )
    return group


def _of_node(world_size: int) -> "Optional[tuple[int, int]]":
    """Rank and world size from the process's number on its node, which Lightning's launcher sets
    without RANK."""
    local, on_node = local_rank(), _number("LOCAL_WORLD_SIZE", "the number of processes on this node")
    node = _number("NODE_RANK", "the number of this node")
    node = _number("GROUP_RANK", "the number of this node") if node is None else node
    if local is None or (node is None and on_node != world_size) or (node and on_node is None):
        return None
    if on_node is not None and not local < on_node <= world_size:
        raise ArgumentError(
            f"in the environment, LOCAL_RANK is {local}, LOCAL_WORLD_SIZE is {on_node} and WORLD_SIZE is {world_size}, "
            "which contradict each other: pass rank= and world_size=, or correct the variables"
        )
    return (node or 0) * (on_node or 0) + local, world_size


def _from_environment(shared: bool) -> "tuple[Optional[int], Optional[int]]":
    """Rank and world size, or (None, None). `shared`: trainers of a group or of a named stream share
    batches unless variables say which rank each is."""
    rank, world_size = _from_variables()
    group = _process_group()
    if group is not None and not (shared and (rank, world_size) == (None, None)):
        return _agreeing(group, rank, world_size)
    if (rank is None) == (world_size is None):
        found = None if shared or rank is not None else launcher()
        return (found.rank, found.world_size) if found is not None else (rank, world_size)
    if world_size == 1:
        return 0, 1
    of_node = None if world_size is None else _of_node(world_size)
    if of_node is not None:
        return of_node
    there, missing = ("RANK", "WORLD_SIZE") if world_size is None else ("WORLD_SIZE", "RANK")
    raise ArgumentError(
        f"the environment variable {there} is set and {missing} is not, and neither torch.distributed's process group nor "
        "LOCAL_RANK and NODE_RANK say which rank this process is: pass rank= and world_size=, or create the loader "
        "after init_process_group(); one process that reads everything passes rank=0, world_size=1"
    )


def launcher() -> Optional[Launcher]:
    """The ranks of srun, mpirun or mpiexec. None if there is only one rank, or if RANK, WORLD_SIZE
    or a process group say more."""
    if _from_variables() != (None, None) or _process_group() is not None:
        return None
    for whose, (size, rank) in _LAUNCHERS.items():
        texts = os.environ.get(rank, ""), os.environ.get(size, "")
        if all(text.isascii() and text.isdigit() for text in texts):
            found = Launcher(whose, int(texts[0]), int(texts[1]), rank, size)
            return found if found.world_size > 1 else None
    return None


def _check(rank: int, world_size: int, whence: str) -> None:
    if world_size < 1:
        raise ArgumentError(f"{whence}world_size is {world_size}: expected the number of ranks, 1 or more")
    if not 0 <= rank < world_size:
        raise ArgumentError(
            f"{whence}rank is {rank} and world_size is {world_size}: expected a rank from 0 to {world_size - 1}"
        )


def ranks(share: Optional[str], rank: Optional[int], world_size: Optional[int], shared: bool) -> Ranks:
    """The rank of this process among those that read together. share="all" needs no ranks.
    `shared`: the loader has a group or reads a named stream."""
    if share == "all":
        if rank is not None or world_size is not None:
            raise ArgumentError(
                'rank and world_size have a meaning only with share="split"; with share="all" every trainer gets every '
                "batch: leave them out"
            )
        return Ranks("all", None, None)
    whence = ""
    if rank is None and world_size is None:
        rank, world_size = _from_environment(shared and share is None)
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
                "torchrun, which sets RANK and WORLD_SIZE, or create the loader after init_process_group()"
            )
        return Ranks(None, None, None)
    _check(rank, world_size, whence)
    if world_size == 1 and share is None:
        return Ranks(None, None, None)
    return Ranks("split", rank, world_size)
