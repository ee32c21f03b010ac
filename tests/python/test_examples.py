"""The examples that do not need torch, and imagenet_val.py.

torch_examples.py tests those that need torch. tests/docs runs the code that the documentation
shows."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import signal
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import support
from support import penstock

import sample_programs as examples

IMAGENET_VAL = examples.FOLDER / "imagenet_val.py"


class Numpy(unittest.TestCase):
    def run_it(self, *arguments: Any) -> str:
        return examples.run_here("train_numpy.py", examples.pictures(), *arguments)

    def test_learns(self) -> None:
        text = self.run_it("--epochs", 4)
        rates = [float(rate) for rate in re.findall(r"([\d.]+) % right", text)]
        self.assertEqual(len(rates), 4)
        self.assertGreater(rates[-1], rates[0])

    def test_resumes_to_the_bit(self) -> None:
        whole = examples.weights(self.run_it("--epochs", 3))
        checkpoint = support.folder / "numpy.npz"
        for steps in (1, 3, 2):  # the second stop is at the end of an epoch
            self.run_it("--epochs", 3, "--checkpoint", checkpoint, "--steps", steps)
        rest = self.run_it("--epochs", 3, "--checkpoint", checkpoint)
        self.assertIn("going on after step 6", rest)
        self.assertEqual(examples.weights(rest), whole)

    def test_interrupted(self) -> None:
        checkpoint = support.folder / "interrupted.npz"
        command = [sys.executable, str(examples.FOLDER / "train_numpy.py"), examples.pictures(), "--epochs", "1000000",
                   "--checkpoint", str(checkpoint)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            self.assertIn("epoch 0", process.stdout.readline())
            process.send_signal(signal.SIGINT)
            text = process.stdout.read()
        self.assertEqual(process.returncode, 0)
        self.assertIn("stopped after step", text)
        self.assertIn("going on after", self.run_it("--checkpoint", checkpoint, "--steps", 1, "--epochs", 1000000))


class Validation(unittest.TestCase):
    """imagenet_val.py, on 12 images of 4 classes."""

    SYNSETS = ("n02119789", "n01440764", "n15075141", "n02100735")  # in the order of a made-up devkit

    def setUp(self) -> None:
        self.home = support.folder / f"val-{self.id().rsplit('.', 1)[1]}"
        self.flat, self.out = self.home / "flat", self.home / "out"
        self.flat.mkdir(parents=True)
        originals = sorted(Path(support.dataset(per_class=3, classes=4)).glob("*/*.jpg"))
        self.names = [f"ILSVRC2012_val_{number:08d}" for number in range(1, 13)]
        self.ids = [(5 * number) % 4 for number in range(12)]
        for name, path in zip(self.names, originals):
            (self.flat / f"{name}.JPEG").write_bytes(path.read_bytes())
        self.before = self.tree(self.flat)
        self.csv, self.txt, self.synsets = self.home / "LOC.csv", self.home / "truth.txt", self.home / "synsets.txt"
        named = [(name, self.SYNSETS[number]) for name, number in zip(self.names, self.ids)]
        rows = [f"{name},{synset} 10 20 30 40 {synset} 1 2 3 4 " for name, synset in named]
        self.csv.write_text("\n".join(["ImageId,PredictionString", *reversed(rows)]) + "\n")
        self.txt.write_text("".join(f"{number + 1}\n" for number in self.ids))
        self.synsets.write_text("".join(f"{name}\n" for name in self.SYNSETS))

    def tearDown(self) -> None:
        self.assertEqual(self.tree(self.flat), self.before, "the originals were changed")

    @staticmethod
    def tree(folder: Path) -> Any:
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}

    def recipe(self, *arguments: Any, code: int = 0) -> str:
        """Runs it as a program, but in this process, because there are many runs."""
        said = io.StringIO()
        words = [str(IMAGENET_VAL), str(self.flat), str(self.out), *map(str, arguments)]
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            with self.assertRaises(SystemExit) as ended:
                runpy.run_path(str(IMAGENET_VAL), run_name="__main__")
        self.assertEqual(ended.exception.code, code, said.getvalue())
        self.assertEqual([path.name for path in self.home.iterdir() if path.name.startswith(".")], [], "left behind")
        return said.getvalue()

    def refuses(self, *words: str, labels: Any = None, more: Any = (), count: Any = 12) -> None:
        text = self.recipe("--labels", labels or self.csv, "--count", count, *more, code=1)
        for word in words:
            self.assertIn(word, text)
        self.assertFalse(self.out.exists(), "it wrote something all the same")

    def seen(self, source: Any) -> "tuple[list[Any], str, list[str]]":
        """(image, class) of each sample, from a loader."""
        with penstock.Loader(source, train=False, batch_size=5, image_size=32, framework="numpy") as loader:
            pairs = [(loader.path(int(index)), int(label)) for batch in loader.batches()
                     for index, label in zip(batch.samples["index"], batch.labels)]
            rows = [(re.search(r"ILSVRC2012_val_\d+", path)[0], label) for path, label in pairs]  # type: ignore[index]
            return rows, loader.state_dict()["fingerprint"], loader.classes

    def check_seen(self, source: Any) -> str:
        classes = sorted(self.SYNSETS)
        wanted = {name: classes.index(self.SYNSETS[number]) for name, number in zip(self.names, self.ids)}
        rows, fingerprint, names = self.seen(source)
        self.assertEqual(dict(rows), wanted)
        self.assertEqual(len(rows), 12)
        self.assertIn(names, (classes, []))
        return fingerprint

    def test_kaggle(self) -> None:
        self.assertIn("12 images in 4 classes", self.recipe("--labels", self.csv, "--count", 12))
        self.assertTrue(all(path.is_symlink() for path in self.out.glob("*/*")))
        self.check_seen(self.out)

    def test_devkit(self) -> None:
        self.recipe("--labels", self.txt, "--synsets", self.synsets, "--count", 12)
        self.check_seen(self.out)

    def test_names_in_order(self) -> None:
        self.txt.write_text("".join(f"{self.SYNSETS[number]}\n" for number in self.ids))
        self.recipe("--labels", self.txt, "--count", 12)
        self.check_seen(self.out)

    def test_tars_and_folders_are_one_dataset(self) -> None:
        self.recipe("--labels", self.csv, "--count", 12, "--tars", "--per-shard", 5)
        names = [f"val-{number:06d}.tar" for number in range(3)]
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), names)
        tars = self.check_seen(f"{self.out}/val-*.tar")
        with tarfile.open(self.out / "val-000002.tar") as tar:
            self.assertEqual([Path(name).suffix for name in tar.getnames()], [".jpg", ".cls"] * 2)
        self.out = self.home / "folders"
        self.recipe("--labels", self.csv, "--count", 12)
        self.assertEqual(self.check_seen(self.out), tars, "another fingerprint")

    def test_meta_mat(self) -> None:
        try:
            import numpy
            from scipy.io import savemat
        except ImportError:
            self.recipe("--labels", self.txt, "--synsets", self.home / "meta.mat", "--count", 12, code=1)
            self.skipTest("no scipy in this Python")
        types = [(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children")]
        rows = [(number + 1, name, "", "", 0) for number, name in enumerate(self.SYNSETS)]
        table = numpy.array([*reversed(rows), (5, "n00001740", "entity", "", 3)], dtype=types)
        savemat(self.home / "meta.mat", {"synsets": table.reshape(-1, 1)})
        self.recipe("--labels", self.txt, "--synsets", self.home / "meta.mat", "--count", 12)
        self.check_seen(self.out)
        (self.home / "wrong.mat").write_bytes(b"no matrix" * 40)
        self.out = self.home / "other"
        self.refuses("is not the devkit's meta.mat", labels=self.txt, more=("--synsets", self.home / "wrong.mat"))

    def test_labels_and_images_must_match(self) -> None:
        lines = self.csv.read_text().splitlines()
        (self.home / "short.csv").write_text("\n".join([lines[0], *lines[3:]]))
        self.refuses("2 images have no label", self.names[-1], labels=self.home / "short.csv")
        (self.flat / f"{self.names[0]}.JPEG").rename(self.home / "away")
        self.refuses("1 images that have a label are missing", self.names[0])
        (self.home / "away").rename(self.flat / f"{self.names[0]}.JPEG")
        self.refuses("expected 50000", count=50000)

    def test_wrong_labels(self) -> None:
        wrong = self.home / "wrong"
        head = "ImageId,PredictionString\n"
        first = self.names[0]
        for text, words in (
            (head + f"{first},cat 1 2 3 4\n", "line 2: 'cat' is not a synset"),
            (head + f"{first}\n", "line 2: ''"),
            (head + f"{first},n01440764 1\n" * 2, f"line 3: {first} already has a label"),
            ("n01440764\ndog\n", "line 2: 'dog' is neither"),
            ("1\n2\n", "--synsets meta.mat"),
            ("", "12 images have no label"),
        ):
            wrong.write_text(text)
            self.refuses(words, labels=wrong)
        wrong.write_bytes(b"\x89\xff\x00")
        self.refuses("not a text file", labels=wrong)
        self.refuses("No such file", labels=self.home / "gone")
        for numbers in ("0", "5"):
            wrong.write_text("1\n" * 3 + numbers + "\n")
            self.refuses(f"line 4: there is no class {numbers}", labels=wrong, more=("--synsets", self.synsets))
        for text, words in (("n01440764\ncat\n", "class 2 is 'cat'"), ("n01440764\n" * 2, "appear twice")):
            wrong.write_text(text)
            self.refuses(words, labels=self.txt, more=("--synsets", wrong))

    def test_wrong_folders(self) -> None:
        (self.home / "empty").mkdir()
        self.out.mkdir()
        (self.out / "mine").write_text("mine")
        self.assertIn("already exists", self.recipe("--labels", self.csv, "--count", 12, code=1))
        self.assertEqual((self.out / "mine").read_text(), "mine")
        self.out = self.home / "new"
        flat, self.flat = self.flat, self.home / "empty"
        self.refuses("has no ILSVRC2012_val_*.JPEG")
        self.flat = self.home / "gone"
        self.refuses("No such file")
        self.flat = flat
        self.out = self.home / "not/there"
        self.refuses("No such file")
        self.recipe("--labels", self.csv, "--per-shard", "0", code=2)


if __name__ == "__main__":
    support.main()
