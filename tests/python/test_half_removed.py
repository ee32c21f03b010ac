#!/usr/bin/env python3
"""An installation of which a part is gone: the import, the loader and the command say what is missing and what to do. Needs PENSTOCK_BIN and
PYTHONPATH with the build's package, whose files are copied."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: this Python has no numpy")
    sys.exit(77)

BUILT = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]) / "penstock"
BIN = Path(os.environ["PENSTOCK_BIN"])
LOAD = "import sys, penstock; penstock.Loader(sys.argv[1], batch_size=2, image_size=32)"


class HalfRemoved(unittest.TestCase):
    def setUp(self):
        self.home = Path(tempfile.mkdtemp(prefix="half-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.package = self.home / "lib/penstock"
        shutil.copytree(BUILT, self.package, symlinks=False, ignore=shutil.ignore_patterns("__pycache__"))
        self.programs = self.home / "bin"
        self.programs.mkdir()
        shutil.copy(BIN / "penstock", self.programs)
        subprocess.run([BIN / "make_dataset", self.home / "images", "--per-class", "2"], check=True, stdout=subprocess.DEVNULL)

    def said(self, *command):
        """What it says on stderr, when it fails."""
        environment = {"PATH": "/nowhere", "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home), "PYTHONDONTWRITEBYTECODE": "1",
                       "PYTHONPATH": str(self.home / "lib"), "LD_LIBRARY_PATH": str(BIN.parent / "lib")}
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                              env=environment, check=False)
        self.assertIn(done.returncode, (1, 2), done)
        return done.stderr

    def test_without_the_extension(self):
        for path in self.package.glob("_penstock*.so"):
            path.unlink()
        last = self.said(sys.executable, "-c", "import penstock").strip().splitlines()[-1]
        self.assertRegex(last, r"^ImportError: the extension penstock\._penstock is missing in " + str(self.package))
        self.assertIn("install penstock again", last)

    def test_with_an_extension_that_cannot_be_loaded(self):
        """As one that another architecture was compiled for, or one that was cut off."""
        for path in self.package.glob("_penstock*.so"):
            path.write_bytes(path.read_bytes()[:100])
        last = self.said(sys.executable, "-c", "import penstock").strip().splitlines()[-1]
        self.assertRegex(last, r"^ImportError: the extension penstock\._penstock in .* cannot be loaded: .*_penstock")
        self.assertIn("install penstock again", last)

    def test_without_a_module(self):
        """Python names it; this is no fault of the extension."""
        (self.package / "batch.py").unlink()
        last = self.said(sys.executable, "-c", "import penstock").strip().splitlines()[-1]
        self.assertEqual(last, "ModuleNotFoundError: No module named 'penstock.batch'")

    def test_loader_without_the_daemon(self):
        (self.package / "penstockd").unlink()
        last = self.said(sys.executable, "-c", LOAD, self.home / "images").strip().splitlines()[-1]
        self.assertRegex(last, r"penstockd was not found to start one \(looked at .*/lib/penstock/penstockd.*\): .*install it, or set PENSTOCKD")

    def test_command_without_the_daemon(self):
        said = self.said(self.programs / "penstock", "bench", self.home / "images", "--batch-size", "2")
        self.assertIn("there is no penstockd beside this command or in PATH; build or install it", said)

    def test_complete(self):
        """The copy itself is not what is wrong above."""
        subprocess.run([sys.executable, "-c", LOAD, self.home / "images"], check=True, timeout=120,
                       env={"PATH": "/nowhere", "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home), "PYTHONPATH": str(self.home / "lib"),
                            "PYTHONDONTWRITEBYTECODE": "1"})
        subprocess.run([BIN / "penstock", "stop"], check=True, stdout=subprocess.DEVNULL, env={"HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home)})


if __name__ == "__main__":
    unittest.main()
