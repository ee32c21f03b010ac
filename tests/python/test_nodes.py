"""What several nodes and several jobs do to each other: nodes with other versions of a dataset, jobs with one name, ranks that the
world does not have.

The process group is a stand-in with a store; torch_distributed.py has the real one."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import types
import unittest
import warnings
from typing import Any, Iterator
from unittest import mock

import support
from support import penstock

COMMON = {"batch_size": 4, "image_size": 24, "seed": 3, "framework": "numpy", "device": "cpu"}


class Store:
    """The part of a torch.distributed.Store that the loader uses, as TCPStore does it."""

    def __init__(self) -> None:
        self.kept: "dict[str, str]" = {}

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        if self.kept.get(key, "") == expected:
            self.kept[key] = desired
        return self.kept[key].encode()


@contextlib.contextmanager
def on_node(name: str, rank: int, world: int, store: Any) -> "Iterator[None]":
    """This process as a rank of a process group on a node, and as a process that has opened nothing before."""
    c10d = types.SimpleNamespace(_get_default_store=lambda: store)
    group = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: rank, get_world_size=lambda: world,
                                  distributed_c10d=c10d)
    from penstock import nodes

    # A daemon for each node.
    home = support.folder / "run" / name
    home.mkdir(mode=0o700, exist_ok=True)
    variables = {"RANK": str(rank), "WORLD_SIZE": str(world), "PENSTOCK_JOB": "nodes", "XDG_RUNTIME_DIR": str(home)}
    with mock.patch.dict(sys.modules, {"torch.distributed": group}), mock.patch.dict(os.environ, variables), \
            mock.patch.object(socket, "gethostname", lambda: name), mock.patch.object(nodes, "_opened", {}):
        yield


def versions() -> "tuple[str, str]":
    """Two folders, each with its own version of the dataset "data"."""
    made = []
    for version, seed in (("old", 1), ("new", 2)):
        folder = support.folder / version
        if not folder.exists():
            folder.mkdir()
            os.symlink(support.dataset(per_class=8, seed=seed), folder / "data")
        made.append(str(folder))
    return made[0], made[1]


class Versions(unittest.TestCase):
    def load(self, folder: str, **keys: Any) -> "dict[str, Any]":
        """The loader's state at its beginning. The source has the same name in each folder."""
        before = os.getcwd()
        os.chdir(folder)
        try:
            with penstock.Loader("data", **{**COMMON, **keys}) as loader:
                return loader.state_dict()
        finally:
            os.chdir(before)

    def test_a_node_with_another_version_is_refused(self) -> None:
        old, new = versions()
        store = Store()
        with on_node("n1", 0, 4, store):
            first = self.load(new)
        with on_node("n1", 1, 4, store):
            self.assertEqual(self.load(new), first)
        with on_node("n2", 2, 4, store), self.assertRaises(penstock.GroupError) as caught:
            self.load(old)
        with on_node("n9", 0, 1, store):
            other = self.load(old)["fingerprint"]
        self.assertEqual(
            str(caught.exception),
            f"rank 2 on node n2 reads other samples than rank 0 on node n1: the fingerprint is {other} on n2 and "
            f"{first['fingerprint']} on n1; give all nodes the same version of the dataset, and start the job again")
        with on_node("n3", 3, 4, store):
            self.assertEqual(self.load(new), first)

    def test_another_list_of_indices_is_refused(self) -> None:
        _, new = versions()
        store = Store()
        with on_node("n1", 0, 2, store):
            self.load(new, indices=list(range(16)))
        with on_node("n2", 1, 2, store), self.assertRaisesRegex(penstock.GroupError, "the order is .* give all nodes the same indices"):
            self.load(new, indices=list(range(1, 17)))

    def test_only_ranks_of_the_group_with_one_definition_are_compared(self) -> None:
        old, new = versions()
        store = Store()
        with on_node("n1", 0, 2, store):
            self.load(new)
        with on_node("n2", 1, 2, store):
            self.load(old, rank=0, world_size=1)  # a rank that reads everything by itself
            self.load(old, train=False)  # another loader: of the validation
            self.load(old, seed=4)
        with on_node("n2", 1, 2, None), mock.patch.object(sys.modules["torch.distributed"], "is_initialized", lambda: False):
            self.load(old)
        self.assertTrue(all(key.startswith("penstock/") for key in store.kept), store.kept)

    def test_a_store_that_fails_or_cannot_compare(self) -> None:
        old, _ = versions()
        for error, count in ((NotImplementedError("Not implemented."), 0), (RuntimeError("Connection reset by peer"), 1)):
            store = mock.Mock()
            store.compare_set.side_effect = error
            with self.subTest(str(error)), on_node("n1", 0, 2, store), warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self.load(old)
            said = [str(one.message) for one in told if "nodes are not compared" in str(one.message)]
            self.assertEqual(len(said), count, said)
            self.assertTrue(all(text.endswith("store failed: Connection reset by peer") for text in said))

    def test_the_second_loader_is_compared_with_the_second(self) -> None:
        old, new = versions()
        store = Store()
        with on_node("n1", 0, 2, store):
            self.load(old)
            self.load(new)
        with on_node("n2", 1, 2, store):
            self.load(old)
            with self.assertRaisesRegex(penstock.GroupError, "rank 1 on node n2 reads other samples than rank 0 on node n1"):
                self.load(old)

    def test_a_state_of_another_version_names_the_rank_and_its_node(self) -> None:
        old, new = versions()
        state = self.load(new)
        for given in (True, False):
            with self.subTest(given=given), mock.patch.object(socket, "gethostname", lambda: "n2"), \
                    self.assertRaisesRegex(penstock.StateError, r"another dataset.*\(rank 1, on node n2\)"):
                os.chdir(old)
                with penstock.Loader("data", rank=1, world_size=2, state=state if given else None, **COMMON) as loader:
                    loader.load_state_dict(state)


class Jobs(unittest.TestCase):
    def open(self, job: str, rank: int, world: int = 2) -> Any:
        with mock.patch.dict(os.environ, {"TORCHELASTIC_RUN_ID": job, "RANK": str(rank), "WORLD_SIZE": str(world)}):
            return penstock.Loader(support.dataset(per_class=8), socket=str(support.folder / "run/shared/penstock.sock"), **COMMON)

    def test_two_jobs_share_a_daemon(self) -> None:
        """Each reads every sample once, side by side."""
        program = (
            "import sys, penstock\n"
            f"with penstock.Loader({support.dataset(per_class=8)!r}, **{COMMON!r}) as loader:\n"
            "    print(*[int(row['index']) for batch in loader.batches() for row in batch.samples])\n")
        variables = {"PENSTOCK_SOCKET": str(support.folder / "run/jobs/penstock.sock"), "WORLD_SIZE": "2"}
        read = {job: [] for job in ("a", "b")}
        for rank in ("0", "1"):
            for job, rows in read.items():
                rows += support.python(program, TORCHELASTIC_RUN_ID=job, RANK=rank, **variables).stdout.split()
        for rows in read.values():
            self.assertEqual(sorted(map(int, rows)), list(range(24)))

    def test_two_jobs_with_one_name_are_refused(self) -> None:
        program = (
            "import penstock\n"
            f"loader = penstock.Loader({support.dataset(per_class=8)!r}, **{COMMON!r})\n"
            "print('open', flush=True)\n"
            "input()\n")
        variables = {"PENSTOCK_SOCKET": str(support.folder / "run/same/penstock.sock"), "WORLD_SIZE": "2", "RANK": "0", "TORCHELASTIC_RUN_ID": "train"}
        with support.started(program, **variables) as other:
            self.assertEqual(other.stdout.readline(), "open\n")
            refused = support.python(program, check=False, **variables)
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, rf"GroupError: rank 0 of group torch-train/\S+ is taken by trainer {other.pid}: give every trainer of the "
                                         r"group a rank of its own, or, if that trainer belongs to another job, give each job a name of its own "
                                         r"\(torchrun's --rdzv-id, or PENSTOCK_JOB\)")

    def test_a_rank_beyond_the_world(self) -> None:
        for rank, world in ((8, 8), (9, 8), (1, 1)):
            with self.subTest(rank=rank), self.assertRaisesRegex(
                    penstock.ArgumentError, f"in the environment, rank is {rank} and world_size is {world}: expected a rank from 0 to {world - 1}"):
                self.open("beyond", rank, world)


if __name__ == "__main__":
    support.main()
