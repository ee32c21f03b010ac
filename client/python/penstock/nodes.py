"""Whether all nodes of a job read the same dataset.

On one node the daemon compares what its ranks read. Daemons of several nodes do not know each
other, so a node with an older copy of the dataset would go unnoticed until its states meet those of
another node. Where torch.distributed's process group exists when a loader is created, the loader
compares the fingerprints by the group's store, in which each process can leave a text for the
others. No process waits for another one, so a loader that only some ranks create blocks nothing.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from collections.abc import Mapping
from typing import Any

from .errors import Error, GroupError, StateError
from .events import warn
from .state import State

__all__ = ["compare", "explain"]

# What ranks need not have in common: where the daemon is, how patient the trainer is, and the paths
# of files whose content `order` stands for.
_OWN = frozenset({
    "daemon_memory", "daemon_threads", "indices", "laggard", "laggard_timeout_s", "pin_memory", "prefetch",
    "private_daemon", "rank", "reconnect_ms", "restarts", "socket", "timeout_ms", "wait_for", "weights",
})  # fmt: skip
_SAME = {
    "fingerprint": "give all nodes the same version of the dataset",
    "order": "give all nodes the same indices and weights",
}
_opened: "dict[str, int]" = {}  # how many loaders of a definition this process has compared


def explain(error: Error, options: Mapping[str, Any]) -> Error:
    """The error; if a state is refused and there are several ranks, it says which rank this is, and on which node."""
    if not isinstance(error, StateError) or options.get("world_size", 1) == 1:
        return error
    told = StateError(f"{error} (rank {options['rank']}, on node {socket.gethostname()})")
    told.code = error.code
    return told


def _store(options: Mapping[str, Any]) -> Any:
    """The process group's store, if the loader has the rank that the group gives this process. Does
    not import torch: a program with a process group has already imported it."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    if (options.get("rank"), options.get("world_size")) != (distributed.get_rank(), distributed.get_world_size()):
        return None
    find = getattr(distributed.distributed_c10d, "_get_default_store", None)
    return None if find is None else find()


def _first(store: Any, key: str, text: str) -> str:
    """What the first rank left at this key; the text itself if this is the first one, or if the store cannot tell."""
    try:
        found: bytes = store.compare_set(key, "", text)
        return found.decode()
    except NotImplementedError:  # torch's group "fake", whose other ranks do not exist
        return text
    except RuntimeError as error:
        warn(f"the datasets of this job's nodes are not compared, because the process group's store failed: {error}")
        return text


def _key(options: Mapping[str, Any]) -> str:
    """The same in all ranks that create their loaders in the same order."""
    common = {name: value for name, value in options.items() if name not in _OWN}
    digest = hashlib.sha256(json.dumps(common, sort_keys=True, default=str).encode()).hexdigest()[:16]
    _opened[digest] = number = _opened.get(digest, 0) + 1
    return f"penstock/{digest}/{number}"


def compare(options: Mapping[str, Any], state: State) -> None:
    """GroupError if the first rank of the job that came here reads another dataset, or other samples of it."""
    store = _store(options)
    if store is None or options.get("share") != "split":
        return
    mine = {"node": socket.gethostname(), "rank": options["rank"], "fingerprint": state.fingerprint, "order": state.order}
    first = json.loads(_first(store, _key(options), json.dumps(mine)))
    for what, remedy in _SAME.items():
        if mine[what] != first[what]:
            raise GroupError(
                f"rank {mine['rank']} on node {mine['node']} reads other samples than rank {first['rank']} on node "
                f"{first['node']}: the {what} is {mine[what]} on {mine['node']} and {first[what]} on {first['node']}; "
                f"{remedy}, and start the job again"
            )
