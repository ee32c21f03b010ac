"""Wrong arguments raise an error of penstock that names the argument, what is allowed and what was
passed."""

from __future__ import annotations

import array
import ast
import importlib.util
import inspect
import os
import re
import shutil
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any, Callable
from unittest import mock

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

import numpy as np


def loader(source: Any = None, **arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": 32, "framework": "numpy"}
    return penstock.Loader(support.dataset() if source is None else source, **{**base, **arguments})


class Refused(unittest.TestCase):
    def refused(self, error: str, sentence: str, make: Callable[[], Any]) -> None:
        """Exactly this type, which the documentation names."""
        with self.subTest(sentence), self.assertRaisesRegex(penstock.Error, sentence) as caught:
            make().close()
        self.assertIs(type(caught.exception), getattr(penstock, error), caught.exception)

    def argument(self, sentence: str, **arguments: Any) -> None:
        self.refused("ArgumentError", sentence, lambda: loader(**arguments))

    def kind(self, sentence: str, **arguments: Any) -> None:
        self.refused("ArgumentTypeError", sentence, lambda: loader(**arguments))


class Values(Refused):
    def test_columns(self) -> None:
        """A folder has no columns; the values are checked before a daemon is asked."""
        self.argument("image_column: the image of a folder cannot be chosen, because it has no columns", image_column="img")
        self.argument("label_offset: the label of a folder cannot be chosen", label_offset=-1)
        self.argument("label_offset: expected a whole number from -65536 to 65536, got -65537", label_offset=-65537)
        self.argument("label_offset: expected a whole number from -65536 to 65536, got 65537", label_offset=65537)
        self.kind("label_offset: expected a whole number", label_offset="1")
        self.kind("label_column", label_column=3)
        self.argument("label_column: expected nothing", label_column="y", labels="none")
        with loader(label_offset=0) as made:
            self.assertEqual(len(next(iter(made))), 2)

    def test_rectangles(self) -> None:
        """(height, width), of images and in each epoch; the states and the shapes of both frameworks' layouts."""
        with loader(image_size=(64, 32)) as made:
            self.assertEqual(made.image_size, (64, 32))
            images, _ = next(iter(made))
            self.assertEqual(images.shape, (8, 3, 64, 32))
        with loader(image_size=(48, 48)) as made:
            self.assertEqual(made.image_size, 48)
        for pair in (np.array([64, 32]), np.array([64, 32], dtype=np.uint16), [np.int64(64), 32], array.array("i", [64, 32])):
            with self.subTest(type(pair)), loader(image_size=pair) as made:
                self.assertEqual(made.image_size, (64, 32))
        with loader(image_size=np.int64(40)) as made:
            self.assertEqual(made.image_size, 40)
        self.argument(r"image_size: expected one whole number, such as 224, or \(height, width\), got array\(\[64\]\)",
                      image_size=np.array([64]))
        self.kind("image_size: expected a whole number from 1 to 4096, got 64.0", image_size=np.array([64.0, 32.0]))
        with loader(image_size={0: (64, 32), 1: 40}) as made:
            self.assertEqual(made.image_size, (64, 40))
            self.assertEqual([next(iter(made))[0].shape[2:] for _ in range(2)], [(64, 32), (40, 40)])
        with loader(image_size=(64, 32), transforms=[{"Resize": {"size": (72, 36)}}, {"RandomCrop": {"size": (64, 32)}}]) as made:
            self.assertEqual(next(iter(made))[0].shape, (8, 3, 64, 32))
        self.argument(r"image_size is \(64, 32\), but transforms produces images of size \(32, 64\)", image_size=(64, 32),
                      transforms=[{"RandomResizedCrop": {"size": (32, 64)}}])

    def test_numbers(self) -> None:
        self.argument("batch_size: expected a whole number from 1 to 65536, got 0", batch_size=0)
        self.argument("batch_size: .*got 65537", batch_size=65537)
        self.kind("batch_size: .*got 8.0", batch_size=8.0)
        self.kind("batch_size: .*got '8'", batch_size="8")
        self.kind("batch_size: .*got True", batch_size=True)
        for name in ("batch_size", "train", "seed", "repeats", "views"):
            self.kind(f"{name}: expected .*, got None", **{name: None})
        self.argument("image_size: expected a whole number from 1 to 4096, got 4097", image_size=4097)
        self.argument(r"image_size: expected one whole number, such as 224, or \(height, width\), got \(1, 2, 3\)", image_size=(1, 2, 3))
        self.argument("image_size: expected a whole number from 1 to 4096, got 4097", image_size=(32, 4097))
        self.kind("image_size: expected a whole number .*, got 'a'", image_size=(32, "a"))
        self.argument(r"image_size\[1\]: expected a whole number .*, got 0", image_size={0: 32, 1: (32, 0)})
        self.argument("seed: .*got -1", seed=-1)
        self.argument("seed: expected a whole number from 0 to 18446744073709551615", seed=2**64)
        self.argument("threads: expected a whole number from 1 to 1024, got 0", threads=0)
        self.argument("prefetch: expected a whole number from 2 to 64, got 1", prefetch=1)
        self.argument("restarts: .*got -1", restarts=-1)
        loader(batch_size=np.int64(4), seed=np.uint64(2**64 - 1)).close()

    def test_numbers_that_cannot_be_written(self) -> None:
        """Python refuses to print numbers of more than 4,300 digits."""
        huge = 10**5000
        for name in ("seed", "batch_size", "threads", "timeout", "reconnect", "max_broken", "rank"):
            self.argument(f"{name}: expected", **{name: huge})
        for name in ("device", "group", "socket", "mean", "labels", "train"):
            self.kind(f"{name}: expected", **{name: huge})
        self.argument("dtype: expected", dtype=huge)
        self.argument("memory: expected a number of bytes", memory=huge)
        self.kind(r"device: .*, got \[0, 0, .*\.\.\.$", device=[0] * 1000)

    def test_words(self) -> None:
        self.argument("labels: expected one of 'auto', 'none', 'folder', 'cls', 'json', or a dict such as .*got 'names'", labels="names")
        self.argument(r"labels\['only'\] needs \"manifest\" beside it", labels={"json": "a", "only": True})
        self.kind(r"labels\['only'\]: expected True or False, got 1", labels={"manifest": "l.csv", "only": 1})
        self.argument("indices: paths name samples of a whole folder, and labels=.*leaves out some of them", indices=["a/1.jpg"],
                      labels={"manifest": "l.csv", "only": True})
        self.argument("on_broken: expected one of 'substitute', 'mark', 'fail', got 'skip'", on_broken="skip")
        self.argument("decode: expected one of 'exact', 'fast'", decode="quick")
        self.argument("interpolation: expected one of 'bilinear', 'bicubic'", interpolation="cubic")
        self.argument("framework: expected one of 'auto', 'torch', 'numpy', 'jax', got 'tf'", framework="tf")
        self.argument("share: expected one of 'all', 'split'", share="some")
        self.argument("laggard: expected one of 'block', 'detach'", laggard="kill")
        self.kind("decode: expected one of .*, got 1", decode=1)
        for word in ("train", "zero_copy", "channels_last", "private_daemon", "drop_last"):
            self.kind(f"{word}: expected True or False, got 'no'", **{word: "no"})
        for value in ("no", 1, []):
            self.kind(f"shuffle: expected True, False, 'full' or 'blocks', got {re.escape(repr(value))}", shuffle=value)
        self.argument("window: expected a whole number from 1 to 65536, got 0", shuffle="blocks", window=0)
        self.argument("^window needs shuffle=.blocks.: it is the number of blocks", window=4)
        self.argument("^shuffle: expected True or None, beside weights", shuffle="blocks", weights="balanced")
        with loader(shuffle="blocks", window=2) as blocks:
            self.assertTrue(blocks.sampler.shuffle)


    def test_times_and_sizes(self) -> None:
        self.argument("timeout: expected seconds, above 0 .*, or None for no limit, got 0", timeout=0)
        self.argument("timeout: .*got -1", timeout=-1)
        self.argument("timeout: .*got nan", timeout=float("nan"))
        self.kind("timeout: .*got '1'", timeout="1")
        self.argument("reconnect: expected seconds", reconnect=-2)
        self.argument('memory: expected a number of bytes, or a size such as "512M" or "4G", from "1M" to "1024T", got \'lots\'', memory="lots")
        for size in (512, 0, -1, 2**20 - 1, 2**50 + 1):
            self.argument(f'^memory: expected .*"1024T", got {size}$', memory=size)
        for size in ("512", "1023K", "1025T", "1.5", "512MM", "auto", "", "1" * 5000 + "M"):
            self.argument('^memory: expected .*"1024T", got ', memory=size)
        self.kind("memory: .*got 1.5", memory=1.5)
        self.argument("max_broken: expected a number from 0 to 1, got 2", max_broken=2)
        self.argument("laggard_timeout: expected a whole number from 1 to 86400", laggard_timeout=0)
        self.argument("wait_for: expected a whole number from 1 to 1024", wait_for=0)
        loader(timeout=None, reconnect=None, restarts=None, memory=64 << 20).close()

    def test_output(self) -> None:
        self.argument(
            "dtype: expected one of 'float32', 'float16', 'bfloat16', 'uint8', got 'float64'", dtype="float64"
        )
        self.argument("dtype: .*float64", dtype=np.float64)
        self.argument("std: expected three numbers other than 0", std=[1, 0, 1])
        self.argument("mean: expected three numbers, .* got 2", mean=[0.5, 0.5])
        self.argument("mean: .*got .*; divide mean and std by 255", mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4])
        self.kind("mean: expected three numbers", mean=0.5)
        self.kind("mean: expected three numbers", mean=["a", "b", "c"])
        self.argument('mean and std need floats, and dtype="uint8"', mean=[0.5, 0.5, 0.5], dtype="uint8")
        self.argument(
            'dtype="uint8" delivers raw pixels, but transforms converts them to float32',
            transforms=["RandomResizedCrop", "ToTensor"],
            dtype="uint8",
        )

    def test_device(self) -> None:
        self.refused("DeviceError", 'device=\'tpu\': expected "auto", "cpu", "cuda"', lambda: loader(device="tpu"))
        self.refused("DeviceError", "device='cuda:x'", lambda: loader(device="cuda:x"))
        self.kind("device: expected .*, got 0", device=0)
        self.argument("device='cuda' needs PyTorch or JAX", device="cuda")
        loader(device="cpu").close()

    def test_framework_that_is_not_there(self) -> None:
        for name in ("torch", "jax"):
            if importlib.util.find_spec(name) is None:
                self.argument(f"{name} is not installed in this Python: run `pip install {name}`", framework=name)

    def test_ranks(self) -> None:
        self.argument("rank is set and world_size is not: pass both", rank=0)
        self.argument("world_size is set and rank is not", world_size=2)
        self.argument("rank is 2 and world_size is 2: expected a rank from 0 to 1", rank=2, world_size=2)
        self.argument('share="split" needs the rank of this process', share="split")
        self.argument('only with share="split"', share="all", rank=0, world_size=2)
        self.argument("wait_for: 2 trainers cannot come", wait_for=2)
        self.argument("group: expected a string that is not empty", group="")
        self.argument("group: expected a name of 1 to 127 bytes", group="g" * 200)
        with mock.patch.dict(os.environ, RANK="3", WORLD_SIZE="2"):
            self.argument("in the environment, rank is 3 and world_size is 2", share=None)
        with mock.patch.dict(os.environ, RANK="0", WORLD_SIZE="0"):
            self.argument("in the environment, world_size is 0", share=None)

    def test_ranks_of_a_process_group(self) -> None:
        """A process group started by mp.spawn or srun: no variable has the rank."""
        group = mock.Mock(distributed_c10d=None)  # without a store
        group.get_rank.return_value, group.get_world_size.return_value = 1, 2

        def ranks(**keys: Any) -> "tuple[int, int]":
            with loader(**keys) as made:
                return made.rank, made.world_size

        srun = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5"}
        with mock.patch.dict(sys.modules, {"torch.distributed": group}), warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(ranks(), (1, 2))
            self.assertEqual(ranks(share="split"), (1, 2))
            self.assertEqual(ranks(rank=0, world_size=3), (0, 3))
            self.assertEqual(ranks(rank=0, world_size=1), (0, 1))
            self.assertEqual(ranks(group="alike"), (0, 1), "a group shares its batches")
            with mock.patch.dict(os.environ, srun):
                self.assertEqual(ranks(), (1, 2), "the process group comes before srun's variables")
            with mock.patch.dict(os.environ, RANK="1", WORLD_SIZE="2"):
                self.assertEqual(ranks(), (1, 2))
            for name, variables in (("RANK", {"RANK": "0", "WORLD_SIZE": "2"}), ("WORLD_SIZE", {"RANK": "1", "WORLD_SIZE": "4"}),
                                    ("WORLD_SIZE", {"WORLD_SIZE": "1"}), ("RANK", {"RANK": "0"})):
                with mock.patch.dict(os.environ, variables):
                    self.argument(rf"variable {name} is {variables[name]}, and in torch.distributed's process group this process is rank 1 of "
                                  r"2: pass rank= and world_size=", share=None)
                    self.assertEqual(ranks(rank=0, world_size=2), (0, 2))
            group.is_initialized.return_value = False
            self.assertEqual(ranks(), (0, 1))
            with mock.patch.dict(os.environ, RANK="0", WORLD_SIZE="2"):
                self.assertEqual(ranks(), (0, 2))

    def test_ranks_of_nodes(self) -> None:
        """Lightning's ddp, started by plain `python`: WORLD_SIZE, LOCAL_RANK and NODE_RANK, without RANK, before the process
        group exists."""
        for variables, want in (
            ({"LOCAL_RANK": "1", "NODE_RANK": "0"}, (1, 6)),
            ({"LOCAL_RANK": "1", "NODE_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, (5, 6)),
            ({"LOCAL_RANK": "0", "GROUP_RANK": "1", "LOCAL_WORLD_SIZE": "3"}, (3, 6)),
            ({"LOCAL_RANK": "4", "LOCAL_WORLD_SIZE": "6"}, (4, 6)),
        ):
            with self.subTest(variables), mock.patch.dict(os.environ, WORLD_SIZE="6", **variables), loader() as made:
                self.assertEqual((made.rank, made.world_size), want)
        for variables, said in (
            ({"LOCAL_RANK": "1"}, "LOCAL_RANK and NODE_RANK say which rank .*: pass rank= and world_size="),
            ({"LOCAL_RANK": "1", "NODE_RANK": "2"}, "LOCAL_RANK and NODE_RANK say which rank"),
            ({"NODE_RANK": "2"}, "LOCAL_RANK and NODE_RANK say which rank"),
            ({"LOCAL_RANK": "1", "NODE_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, "contradict each other: pass rank= and world_size="),
            ({"LOCAL_RANK": "1", "NODE_RANK": "4", "LOCAL_WORLD_SIZE": "2"}, "in the environment, rank is 9 and world_size is 6"),
            ({"LOCAL_RANK": "7", "NODE_RANK": "0"}, "in the environment, rank is 7 and world_size is 6"),
            ({"LOCAL_RANK": "1", "NODE_RANK": "x"}, "variable NODE_RANK is 'x': expected the number of this node"),
        ):
            with self.subTest(variables), mock.patch.dict(os.environ, WORLD_SIZE="6", **variables):
                self.argument(said, share=None)

    def test_one_of_the_two_variables(self) -> None:
        """Lightning's ddp sets WORLD_SIZE and not RANK: torch's process group has the rank."""
        group = mock.Mock(distributed_c10d=None)  # without a store
        group.get_world_size.return_value, group.get_rank.return_value = 2, 1
        for variables in ({"WORLD_SIZE": "2"}, {"RANK": "1"}, {"WORLD_SIZE": "2", "RANK": ""}):
            there, missing = ("WORLD_SIZE", "RANK") if "WORLD_SIZE" in variables else ("RANK", "WORLD_SIZE")
            said = rf"variable {there} is set and {missing} is not.*: pass rank= and world_size="
            with mock.patch.dict(os.environ, variables):
                with mock.patch.dict(sys.modules, {"torch.distributed": group}), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    with loader() as made:
                        self.assertEqual((made.rank, made.world_size), (1, 2))
                    with loader(rank=0, world_size=2, group="said") as made:  # explicit arguments win
                        self.assertEqual((made.rank, made.world_size), (0, 2))
                    group.is_initialized.return_value = False
                    self.argument(said, share=None)
                    group.is_initialized.return_value = True
                with mock.patch.dict(sys.modules):
                    sys.modules.pop("torch.distributed", None)
                    self.argument(said, share=None)
                    loader(rank=0, world_size=1).close()
        with mock.patch.dict(os.environ, WORLD_SIZE="1"), loader() as made:
            self.assertEqual((made.rank, made.world_size), (0, 1))
        with mock.patch.dict(os.environ, WORLD_SIZE="two"):
            self.argument("the environment variable WORLD_SIZE is 'two': expected the number of ranks", share=None)

    def test_ranks_of_a_launcher(self) -> None:
        """srun and mpirun start the ranks, and neither the loader nor torch was told: taken, with a
        warning."""
        for size, rank, whose in (
            ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"),
            ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun"),
            ("PMI_SIZE", "PMI_RANK", "mpiexec"),
        ):
            said = (rf'reads as rank 1 of 2, because {whose} started 2 processes .*rank=int\(os.environ\["{rank}"\]\), '
                    rf'world_size=int\(os.environ\["{size}"\]\).* pass rank=0, world_size=1')
            with mock.patch.dict(os.environ, {size: "2", rank: "1"}):
                with self.assertWarnsRegex(UserWarning, said) as caught, loader() as made:
                    self.assertEqual((made.rank, made.world_size), (1, 2))
                self.assertEqual(Path(caught.filename).name, Path(__file__).name)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    loader(rank=1, world_size=2).close()
                    loader(group="alike").close()
                    with mock.patch.dict(os.environ, RANK="0", WORLD_SIZE="1"):
                        loader().close()
            with mock.patch.dict(os.environ, {size: "2", rank: "2"}):
                self.argument("in the environment, rank is 2 and world_size is 2", share=None)
            # Only one task; and the variables of a batch script of Slurm, which is not a task.
            for variables in ({size: "1", rank: "0"}, {size: "", rank: "0", "SLURM_NTASKS": "2"}, {size: "two", rank: "0"}):
                with mock.patch.dict(os.environ, variables), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    loader().close()
        # mpirun in a Slurm job: the ranks also have the variables of the step that started its
        # helper.
        step = {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "3"}
        with mock.patch.dict(os.environ, step), self.assertWarnsRegex(UserWarning, "rank 3 of 8, because mpirun"):
            loader(batch_size=2).close()

    def test_group_refuses(self) -> None:
        with loader(group="one", share="all"):
            self.refused("GroupError", "another seed", lambda: loader(group="one", share="all", seed=1))
        with loader(rank=0, world_size=2, group="two"):
            self.refused(
                "GroupError", "rank 0 of group two is taken", lambda: loader(rank=0, world_size=2, group="two")
            )

    def test_limits_of_the_daemon(self) -> None:
        """The daemon's advice names a key of a file that a private daemon does not have."""
        home = support.folder / "limited"
        home.mkdir()
        with support.harness.Daemon(home, config="max_streams: 1\n") as daemon, loader(socket=daemon.socket):
            self.refused(
                "GroupError", "max_streams allows.*start penstockd yourself with --config.*until you call close",
                lambda: loader(socket=daemon.socket),
            )

    def test_transforms(self) -> None:
        self.argument("transforms: Resize: size: 10 is that of the shorter side", transforms=[{"Resize": {"size": 10}}])
        self.argument(
            "image_size is 32, but transforms produces images of size 40", transforms=[{"RandomResizedCrop": {"size": 40}}]
        )
        self.argument(r"transforms\[0\]: an object of builtins.int", transforms=[3])

    def test_schedules(self) -> None:
        """A size for each epoch: only its changes count."""
        with loader(image_size={epoch: 32 + 8 * (epoch // 500) for epoch in range(2000)}) as made:
            self.assertEqual(made.image_size, 56)
        with loader(image_size={epoch: 16 + epoch % 40 for epoch in range(1024)}) as made:
            self.assertEqual(made.image_size, 55)
        self.argument("image_size: expected at most 1024 epochs", image_size={epoch: 16 + epoch % 40 for epoch in range(1025)})

    def test_named_streams(self) -> None:
        for more, said in (({"batch_size": 8}, "batch_size belongs to the named stream: leave it out, change the daemon's"),
                           ({"seed": 3, "memory": "1G"}, "memory, seed belong to the named stream: leave them out")):
            self.refused("ArgumentError", f"^{said}", lambda: penstock.Loader("stream:a", framework="numpy", **more))

    def test_indices(self) -> None:
        self.argument("indices is empty", indices=[])
        self.argument(r"^indices: \[1\] is 1000000, but the dataset has", indices=[3, 1000000])
        self.argument("^the list of indices has 3 samples, fewer than one batch", indices=[3, 4, 5], batch_size=4)
        self.refused("DatasetError", "has 3 samples an epoch, by epoch_length, fewer than one batch of 4",
                     lambda: loader(epoch_length=3, batch_size=4))
        self.refused("DatasetError", "has 3 samples in split .:3., fewer than one batch of 4",
                     lambda: loader(split="[:3]", batch_size=4))
        mix = {support.dataset(): 1, support.dataset() + "/.": 1}
        self.refused("ArgumentError", "^the mix of sources has [0-9]+ samples, fewer than", lambda: loader(mix, batch_size=900))
        self.argument(r"indices\[1\] is -1", indices=[3, -1])

    def test_memory(self) -> None:
        self.refused(
            "MemoryLimitError", "memory", lambda: loader(train=False, batch_size=4096, image_size=2048, drop_last=False)
        )


class Unknown(Refused):
    def test_of_other_loaders(self) -> None:
        instead = {
            "num_workers": "not needed: .*threads=",
            "pin_memory": "not needed: .*device=",
            "prefetch_factor": "prefetch=",
            "sampler": "shuffle= and seed=; indices=",
            "collate_fn": "process whole batches in the loop",
            "persistent_workers": "not needed: the daemon lives",
            "worker_init_fn": "randomness follows from seed=",
            "generator": "randomness follows from seed=",
            "dataset": "the folder or the tar files",
            "transform": "transforms=",
            "resize": "use image_size=",
            "workers": "use threads=",
            "bs": "use batch_size=",
            "augment": "use transforms=",
        }
        for name, advice in instead.items():
            self.kind(f"Loader has no argument '{name}': .*{advice}", **{name: 1})

    def test_misspelt(self) -> None:
        self.kind("no argument 'batchsize': did you mean batch_size=", batchsize=3)
        self.kind("no argument 'timeouts': did you mean timeout=", timeouts=3)
        self.kind("no argument 'xyzzy': help.penstock.Loader. and docs/reference/python.md describe its arguments$", xyzzy=3)
        self.kind("no argument 'Batch_Size': did you mean batch_size=", Batch_Size=3)
        self.kind("no argument 'MIXUP': did you mean mixup=", MIXUP=3)
        self.kind("no argument 'Num_Workers': not needed: .*threads=", Num_Workers=3)
        self.kind("'batchsize'.*; Loader has no argument 'num_workers'", batchsize=3, num_workers=2)
        with self.assertRaises(TypeError):
            loader(num_workers=2)
        with self.assertRaises(ValueError):
            loader(num_workers=2)

    def test_nothing(self) -> None:
        with self.assertRaisesRegex(TypeError, "source"):
            penstock.Loader()


class Sources(Refused):
    def source(self, error: str, sentence: str, source: Any) -> None:
        self.refused(error, sentence, lambda: loader(source))

    def test_missing(self) -> None:
        self.source("SourceNotFoundError", "/nowhere does not exist", "/nowhere")
        self.source("SourceNotFoundError", r"nothing matches .*x-\*.tar", str(support.folder / "x-*.tar"))
        self.source("SourceNotFoundError", "a.tar does not exist", [support.folder / "a.tar", support.folder / "b.tar"])
        nobody = support.folder / "nobody's.sock"
        for make in (penstock.Stream, lambda name, **other: penstock.Loader(f"stream:{name}", **other)):
            self.refused(
                "DaemonError", "no penstockd is running", lambda: make("train", framework="numpy", socket=nobody)
            )
        with self.assertRaises(FileNotFoundError):
            loader("/nowhere")

    def test_no_dataset(self) -> None:
        home = support.folder / "strange"
        (home / "empty").mkdir(parents=True)
        (home / "text.tar").write_text("no tar at all" * 1000)
        self.source("DatasetError", "holds no images", home / "empty")
        self.source("DatasetError", "is not a tar", home / "text.tar")
        (home / "flat").mkdir()
        shutil.copy(next(Path(support.dataset()).rglob("*.jpg")), home / "flat/one.jpg")
        self.source("DatasetError", "1 samples, fewer than one batch of 8: lower batch_size", home / "flat")
        (home / "mixed").mkdir()
        shutil.copy(home / "flat/one.jpg", home / "mixed/one.jpg")
        shutil.copytree(home / "flat", home / "mixed/flat")
        self.source("DatasetError", "holds both images .* and folders of images", home / "mixed")

    def test_no_source(self) -> None:
        self.source("ArgumentError", "source: expected a folder, .*got an empty string", "")
        self.source("ArgumentError", "got an empty list", [])
        self.source("ArgumentTypeError", "source: expected a folder, .*got int", 3)
        for elsewhere in ("ftp://host/a.tar", "pipe:cat a.tar"):
            self.source("ArgumentError", "source: .* is neither a path nor a URL that penstock reads .*: download the data", elsewhere)
        for url in ("s3://bucket/train-{000000..000009}.tar", "https://host/a.tar", "hf://datasets/org/name/*.parquet", "gs://b/x/"):
            self.assertEqual(penstock.sources.pattern(url), url)
        self.assertEqual(penstock.sources.pattern(["s3://b/t-8.tar", "s3://b/t-9.tar"]), "s3://b/t-{8..9}.tar")
        self.source("ArgumentTypeError", "got NoneType", [None])
        self.source("ArgumentTypeError", "got ImageFolder: pass its .root", type("ImageFolder", (), {"root": "photos"})())
        saved = type("Dataset", (), {"to_parquet": lambda self, path: None})()
        self.source("ArgumentTypeError", r"got Dataset: save it with .to_parquet\(", saved)
        self.source("SourceNotFoundError", "org/name does not exist in .*hf download ORG/NAME", "org/name")
        self.source("ArgumentError", "zero byte", "a\0b")
        self.source("ArgumentError", "a list cannot contain", ["stream:a", "stream:b"])
        self.source("ArgumentError", "is a folder, but a list may contain only files: to mix", [support.dataset(), str(support.folder)])
        self.source("ArgumentError", "has a brace or a comma", ["a,b.tar", "c.tar"])
        self.source("ArgumentError", "at most 4095 are allowed", [f"{n * 7919:x}.tar" for n in range(2000)])
        self.refused("ArgumentError", "without a name", lambda: penstock.Loader("stream:", framework="numpy"))
        self.refused("ArgumentError", "name: expected a string that is not empty", lambda: penstock.Stream(""))
        self.refused("ArgumentTypeError", "name: expected a string, got 3", lambda: penstock.Stream(3))

    def test_lists(self) -> None:
        from penstock.sources import pattern

        cases = {
            "/d/a-{0000..0003}.tar": [f"/d/a-{n:04}.tar" for n in range(4)],
            "/d/a-{08..12}.tar": [f"/d/a-{n:02}.tar" for n in range(8, 13)],
            "/d/a-{9,10}.tar": ["/d/a-9.tar", "/d/a-10.tar"],
            "/d/{b,a}.tar": ["/d/b.tar", "/d/a.tar"],
            "/d/a-{0,2}.tar": ["/d/a-0.tar", "/d/a-2.tar"],
            "/d/v{1..2}/a.tar": ["/d/v1/a.tar", "/d/v2/a.tar"],
            "/d/a{,b}.tar": ["/d/a.tar", "/d/ab.tar"],
            "/d/a.tar{,}": ["/d/a.tar", "/d/a.tar"],
            "/d/a.tar": ["/d/a.tar"],
        }
        for wanted, paths in cases.items():
            with self.subTest(wanted):
                self.assertEqual(pattern(paths), wanted)
                self.assertEqual(pattern([Path(path) for path in paths]), wanted)

    def test_home(self) -> None:
        shutil.copytree(support.dataset(), Path(os.environ["HOME"]) / "pictures")
        with loader("~/pictures") as source:
            self.assertEqual(source.samples, 60)

    def test_relative(self) -> None:
        before = os.getcwd()
        os.chdir(Path(support.dataset()).parent)
        try:
            with loader(Path(support.dataset()).name) as source:
                self.assertEqual(source.samples, 60)
        finally:
            os.chdir(before)


class Daemons(Refused):
    def test_none_and_none_wanted(self) -> None:
        path = support.folder / "nobody" / "s.sock"
        start = rf"no penstockd is running at {path} \(start one: penstockd --socket {path}; how the last one ended: penstock why\)$"
        self.refused("DaemonError", start, lambda: loader(socket=path, private_daemon=False))
        self.kind("socket: expected a path, got 3", socket=3)


class Documented(unittest.TestCase):
    """docs/reference/python.md has every argument with its default, and every error with its
    base."""

    TEXT = (Path(__file__).resolve().parents[2] / "docs/reference/python.md").read_text()

    def rows(self) -> "list[list[str]]":
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in self.TEXT.splitlines() if line[:1] == "|"]

    def test_arguments(self) -> None:
        told = {
            name: row[1].strip('"')
            for row in self.rows()
            if len(row) == 3
            for name in row[0].replace("`", "").split(", ")
        }
        for name, parameter in inspect.signature(penstock.Loader).parameters.items():
            default = "" if parameter.default is parameter.empty else str(parameter.default)
            if parameter.kind is not parameter.VAR_KEYWORD:
                self.assertEqual(told.get(name), default, name)
        tables = self.TEXT.split("## Arguments")[1].split("\n## ")[0].split("By name only:")
        for table, kind in zip(tables, (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)):
            names = [name for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
            meant = [name for name, parameter in inspect.signature(penstock.Loader).parameters.items() if parameter.kind is kind]
            if kind is inspect.Parameter.KEYWORD_ONLY:  # their order means nothing
                names, meant = sorted(names), sorted(meant)
            else:
                self.assertIn("eighteen by position", table)
                self.assertEqual(len(meant), 18)
            self.assertEqual(names, meant)
        named = self.TEXT.split("## Named streams")[1].split("##")[0]
        for name in inspect.signature(penstock.Stream).parameters:
            self.assertTrue(name in ("name", "unknown") or f"`{name}`" in named, name)

    def test_transforms(self) -> None:
        """All names that are supported, which errors do not list."""
        section = self.TEXT.split("## Transforms")[1].split("\n## ")[0]
        told = {name for line in section.splitlines() if line[:1] == "|" for name in re.findall(r"`([A-Z]\w+)`", line)}
        tables = penstock.transforms
        names = {*tables._OPERATIONS, *tables._HOLDERS, *tables._CONVERSIONS, *tables._MIXES, *tables._NOTHING}
        self.assertEqual(told, names)
        self.assertEqual(set(re.findall(r"`([A-Z]\w+)`", section.split("whole batch")[1].split(")")[0])), set(penstock.advice.ON_BATCHES))

    def test_set_epoch(self) -> None:
        """Every loop over epochs in the examples and the documentation calls it."""
        root = Path(__file__).resolve().parents[2]
        loops = 0
        for path in sorted([root / "README.md", *root.glob("docs/*.md"), *root.glob("docs/guides/*.md"), *root.glob("docs/reference/*.md")]):
            for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
                if "penstock.Loader(" in block and re.search(r"for epoch\b", block):
                    loops += 1
                    with self.subTest(path.name):
                        self.assertIn("loader.set_epoch(epoch)", block)
        self.assertGreater(loops, 3)
        examples = sorted(root.glob("client/python/examples/train_*.py"))
        self.assertGreater(len(examples), 5)
        for path in examples:
            with self.subTest(path.name):
                self.assertRegex(path.read_text(), r"\.set_epoch\((self\.trainer\.current_)?epoch\)")
        self.assertIn("loader.set_epoch(epoch)", sys.modules[penstock.Loader.__module__.split(".")[0]].__doc__ or "")
        self.assertNotRegex((root / "docs/guides/migrating.md").read_text() + self.TEXT, "set_epoch[^|.]* not needed")

    def test_errors(self) -> None:
        told = {row[0].strip("`"): set(row[1].split(", ")) - {""} for row in self.rows() if len(row) == 4}
        told.pop("error")
        for name in penstock.errors.__all__:
            error = getattr(penstock, name)
            bases = {base.__name__ for base in error.__bases__} - {"Error", "Exception"}
            self.assertEqual(told.pop(name, set()), bases, name)
        self.assertEqual(set(told) - {"---"}, set())


class Python39(unittest.TestCase):
    def test_syntax(self) -> None:
        """The oldest supported Python; annotations are not evaluated, so they may be newer."""
        for path in sorted(Path(penstock.loader.__file__).parent.rglob("*.py")):
            with self.subTest(path.name):
                ast.parse(path.read_text(), feature_version=(3, 9))


if __name__ == "__main__":
    support.main()
