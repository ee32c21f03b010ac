"""The examples that need torch, a few steps of each on small data, stopped and resumed.

Tests that need lightning, accelerate or jax are skipped, with a message, if it is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import support

support.require("torch", "torchvision")

import torch  # noqa: E402

import sample_programs as examples  # noqa: E402
from sample_programs import run_here  # noqa: E402

torch.set_num_threads(1)

ONE_THREAD = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
# The smallest model of torchvision with batch norm.
SMALL = ("--model", "shufflenet_v2_x0_5", "--image-size", "32", "--batch-size", "24")


def need(module: str) -> Any:
    return unittest.skipIf(importlib.util.find_spec(module) is None, f"no {module} in {sys.executable}")


def sources() -> "tuple[str, ...]":
    return ("--train", examples.pictures(), "--val", examples.pictures(), *SMALL)


def run(name: str, *arguments: Any, **keys: Any) -> str:
    """In separate processes, for examples that start several."""
    return examples.run(name, *arguments, **keys, **ONE_THREAD)


class Small(unittest.TestCase):
    def test_stopped_and_resumed_to_the_bit(self) -> None:
        whole = examples.weights(run_here("train_small.py", examples.pictures(), "--epochs", 3))
        checkpoint = support.folder / "small.pt"
        common = (examples.pictures(), "--epochs", 3, "--checkpoint", checkpoint)
        run_here("train_small.py", *common, "--steps", 4)
        rest = run_here("train_small.py", *common)
        self.assertIn("going on after step 4, in epoch 1", rest)
        self.assertEqual(examples.weights(rest), whole)

    def test_interrupted(self) -> None:
        checkpoint = support.folder / "interrupted.pt"
        command = [sys.executable, str(examples.FOLDER / "train_small.py"), examples.pictures(), "--epochs", "1000000",
                   "--checkpoint", str(checkpoint)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            self.assertIn("epoch 0", process.stdout.readline())
            process.send_signal(signal.SIGINT)
            text = process.stdout.read()
        self.assertEqual(process.returncode, 0, text)
        self.assertIn("stopped after step", text)


class ImageNet(unittest.TestCase):
    """192 images in training and in evaluation, 24 in a batch: eight steps with one rank, four with
    two."""

    def test_one_process(self) -> None:
        checkpoint = support.folder / "imagenet.pt"
        common = (*sources(), "--epochs", 2, "--print-steps", 1, "--checkpoint", checkpoint)
        first = run_here("train_imagenet.py", *common, "--steps", 11, "--no-amp")
        self.assertIn("epoch 1 step 11 (3 of 8)", first)
        self.assertIn("of 192 images", first)
        self.assertRegex(first, r"(?m)^epoch 0: .*(bound|measured)")
        rest = run_here("train_imagenet.py", *common, "--resume", "--no-amp")
        self.assertEqual(re.findall(r"step (\d+) \((\d+) of 8\)", rest), [(str(step), str(step - 8)) for step in range(12, 17)])
        self.assertEqual(rest.count("of 192 images"), 1)
        self.assertEqual(run_here("train_imagenet.py", *common, "--resume"), "going on after step 16, in epoch 2\n")
        self.assertFalse(checkpoint.with_suffix(".new").exists())

    def test_recipe(self) -> None:
        """Augmented, erased, mixed and balanced; stopped within an epoch and resumed."""
        checkpoint = support.folder / "recipe.pt"
        common = (*sources(), "--print-steps", 1, "--checkpoint", checkpoint, "--no-amp", "--augment", "RandAugment", "--mixup", 0.2,
                  "--cutmix", 1, "--random-erase", 0.25, "--balanced", "--epochs", 1)
        first = run_here("train_imagenet.py", *common, "--steps", 3)
        self.assertRegex(first, r"epoch 0 step 3 \(3 of 8\): loss \d")
        rest = run_here("train_imagenet.py", *common, "--resume")
        self.assertEqual(re.findall(r"\((\d+) of 8\)", rest), ["4", "5", "6", "7", "8"])
        self.assertIn("of 192 images", rest)

    def test_two_ranks_then_one(self) -> None:
        """Stopped by SIGTERM under torchrun, and resumed with another number of ranks."""
        checkpoint = support.folder / "ranks.pt"
        common = (*sources(), "--print-steps", 1, "--checkpoint", checkpoint, "--no-amp")
        command = [sys.executable, *TORCHRUN, str(examples.FOLDER / "train_imagenet.py"), *map(str, common), "--epochs", "100000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, **ONE_THREAD}) as process:
            assert process.stdout
            lines = []
            for line in process.stdout:
                lines.append(line)
                if " of 192 images" in line:
                    process.send_signal(signal.SIGTERM)
                    break
            text = "".join(lines) + process.stdout.read()
        found = re.search(r"leaving after step (\d+)", text)
        assert found, text
        self.assertTrue(Path(checkpoint).exists(), text)
        step = int(found[1])
        epoch, done = divmod(step, 4)
        rest = run_here("train_imagenet.py", *common, "--epochs", epoch + 1, "--resume")
        # One rank needs two steps for one step of two ranks.
        self.assertEqual([int(number) for number in re.findall(r"\((\d+) of 8\)", rest)], list(range(2 * done + 1, 9)), rest)


class Elastic(unittest.TestCase):
    """192 images, 24 in a step of all ranks. tests/torchrun/run.py kills nodes under it."""

    def test_another_number_of_ranks(self) -> None:
        home = support.folder / "elastic"
        common = (examples.pictures(), "--checkpoints", home, "--image-size", 32, "--global-batch", 24, "--checkpoint-steps", 3)
        text = run("torchrun_elastic.py", *common, "--epochs", 1, launcher=TORCHRUN)
        self.assertIn("2 ranks begin after step 0, in epoch 0", text)
        self.assertEqual(sorted(path.name for path in home.iterdir()), ["step-000000006.pt", "step-000000008.pt"])
        text = run("torchrun_elastic.py", *common, "--epochs", 2, launcher=(*TORCHRUN[:-1], "1"))
        self.assertIn("1 ranks begin after step 8, in epoch 1", text)
        self.assertRegex(text, r"epoch 1: loss \d")

    def test_a_batch_that_ranks_cannot_divide(self) -> None:
        share_of = runpy.run_path(str(examples.FOLDER / "torchrun_elastic.py"))["share_of"]
        self.assertEqual([share_of(48, world) for world in (6, 8)], [8, 6])
        with self.assertRaisesRegex(SystemExit, "--global-batch is 47, and 6 ranks cannot divide it evenly"):
            share_of(47, 6)


class Recipes(unittest.TestCase):
    """Stopped within an epoch and resumed, each example ends with the weights of an uninterrupted run."""

    def resumed(self, name: str, *arguments: Any, steps: int) -> "list[float]":
        """Returns the losses of the uninterrupted run's epochs."""
        common = (*arguments, "--epochs", 2)
        text = run_here(name, *common)
        checkpoint = support.folder / f"{name}.pt"
        run_here(name, *common, "--checkpoint", checkpoint, "--steps", steps)
        rest = run_here(name, *common, "--checkpoint", checkpoint)
        self.assertIn(f"going on after step {steps}, in epoch ", rest)
        self.assertEqual(examples.weights(rest), examples.weights(text))
        return [float(loss) for loss in re.findall(r": loss ([\d.]+)", text)]

    def test_buckets(self) -> None:
        losses = self.resumed("buckets.py", examples.pictures(), "--batch-size", 16, "--buckets", "40x24", "32x32", "24x40", steps=3)
        self.assertLess(losses[1], losses[0])

    def test_clip(self) -> None:
        source = support.folder / "captions"
        shutil.copytree(examples.pictures(), source)
        for image in source.rglob("*.jpg"):
            image.with_suffix(".txt").write_text(f"a painting of {image.parent.name}, number {image.stem}")
        losses = self.resumed("clip.py", source, "--batch-size", 32, "--image-size", 32, steps=4)
        self.assertLess(losses[1], losses[0])

    def test_dino(self) -> None:
        losses = self.resumed("dino.py", examples.pictures(), "--batch-size", 48, "--sizes", 32, 16, "--small-views", 3, steps=3)
        self.assertEqual(len(losses), 2)

    def test_reid(self) -> None:
        common = ("--identities", 2, "--images", 8, "--size", 32, 16)
        losses = self.resumed("reid.py", examples.pictures(), *common, steps=7)
        self.assertLess(losses[1], losses[0])
        # The same identities with a camera each, in a manifest: the first label is the class.
        root, manifest = Path(examples.pictures()), support.folder / "reid.csv"
        people = sorted(path.name for path in root.iterdir())
        manifest.write_text("path,pid,camid\n" + "".join(
            f"{path.relative_to(root)},{people.index(path.parent.name)},{i % 6}\n" for i, path in enumerate(sorted(root.rglob("*.jpg")))))
        text = run_here("reid.py", root, *common, "--epochs", 2, "--manifest", manifest)
        self.assertEqual([float(loss) for loss in re.findall(r": loss ([\d.]+)", text)], losses)


class Frameworks(unittest.TestCase):
    @need("jax")
    def test_jax(self) -> None:
        rates = re.findall(r"([\d.]+) % right", run("train_jax.py", examples.pictures(), "--epochs", 3))
        self.assertEqual(len(rates), 3)
        self.assertGreater(float(rates[-1]), float(rates[0]))

    @need("lightning")
    def test_lightning(self) -> None:
        home = support.folder / "lightning"
        common = (*sources(), "--classes", 3, "--epochs", 2, "--accelerator", "cpu", "--devices", 1, "--folder", home)
        run_here("train_lightning.py", *common, "--checkpoint-steps", 4, "--max-steps", 4)
        self.assertEqual(self.place(home / "last.ckpt"), (0, 4 * 24))
        text = run_here("train_lightning.py", *common, "--checkpoint-steps", 4, "--ckpt-path", home / "last.ckpt")
        self.assertEqual(self.place(home / "last.ckpt"), (2, 0))
        self.assertEqual(text.count("of 192 images"), 2, text)

    @need("lightning")
    def test_lightning_starts_two_ranks(self) -> None:
        home = support.folder / "lightning-ranks"
        text = run("train_lightning.py", *sources(), "--classes", 3, "--accelerator", "cpu", "--devices", 2, "--folder", home,
                   "--epochs", 1, "--checkpoint-steps", 3)
        self.assertEqual(self.place(home / "last.ckpt"), (0, 3 * 48))
        self.assertEqual(text.count("of 192 images"), 1, text)

    @staticmethod
    def place(checkpoint: Path) -> "tuple[int, int]":
        """The loader's state, as Lightning saved it."""
        parts = torch.load(checkpoint, weights_only=False)
        state = parts["loops"]["fit_loop"]["state_dict"]["combined_loader"][0]
        return state["epoch"], state["position"]

    @need("accelerate")
    def test_accelerate(self) -> None:
        home = support.folder / "accelerate"
        common = (*sources(), "--classes", 3, "--epochs", 2, "--checkpoint", home)
        self.assertIn("leaving after 3 steps", run("train_accelerate.py", *common, "--steps", 3, launcher=TORCHRUN))
        rest = run_here("train_accelerate.py", *common, "--resume")
        self.assertEqual(re.findall(r"epoch (\d): ", rest), ["0", "1"])


if __name__ == "__main__":
    support.main()
