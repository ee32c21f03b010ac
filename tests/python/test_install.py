"""The install component `python`, from which wheels are made: a package that runs from any folder,
with nothing else installed."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import support

THREE_LINES = """
import glob, os, sys, penstock
loader = penstock.Loader(sys.argv[1], batch_size=8, image_size=48, train=False, device="cpu")
for images, labels in loader: print(*images.shape)
print(penstock.__file__)
daemon = os.path.join(os.path.dirname(penstock.__file__), "penstockd")
def program(process):
    try: return os.readlink(process)
    except OSError: return ""  # it has ended
print(any(program(process) == daemon for process in glob.glob("/proc/[0-9]*/exe")))
"""


def answer(*command: Any, **environment: str) -> str:
    """Runs a program in the root folder, with an environment without the build. Returns its
    output."""
    kept = {name: value for name, value in os.environ.items() if name in support._FOLDERS}
    result = subprocess.run(
        [str(word) for word in command],
        cwd="/",
        env={**kept, "PATH": "/usr/bin:/bin", **environment},
        timeout=120,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert result.returncode == 0, f"{command[0]} ended with {result.returncode}: {result.stdout}{result.stderr}"
    return result.stdout


class Installed(unittest.TestCase):
    prefix: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.prefix = support.folder / "installed"
        install = ["cmake", "--install", str(support.BUILD), "--component", "python", "--prefix", str(cls.prefix)]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)

    def test_files(self) -> None:
        package = self.prefix / "penstock"
        source = Path(__file__).resolve().parents[2] / "client/python/penstock"
        names = {str(path.relative_to(source)) for pattern in ("*.py", "*.pyi", "py.typed") for path in source.rglob(pattern)}
        found = {str(path.relative_to(package)) for path in package.rglob("*") if not path.is_dir()}
        self.assertIn("dataloader/__init__.py", found)
        self.assertEqual(found, names | {"_penstock.abi3.so", "penstockd"})
        self.assertEqual(sorted(path.name for path in (self.prefix / "bin").iterdir()), ["penstock", "penstockd"])
        self.assertFalse([path for path in self.prefix.rglob("*") if path.is_symlink()], "wheels have no links")
        self.assertTrue((self.prefix / "LICENSE").is_file())
        self.assertTrue((self.prefix / "LICENSE.DejaVu").is_file())

    def test_three_lines(self) -> None:
        here = {"PYTHONPATH": str(self.prefix)}
        said = answer(sys.executable, "-B", "-c", THREE_LINES, support.dataset(), **here).split("\n")
        self.assertEqual(said[:-3], ["8 3 48 48"] * 7 + ["4 3 48 48"])
        self.assertEqual(said[-3], str(self.prefix / "penstock/__init__.py"))
        self.assertEqual(said[-2], "True", "penstockd beside the extension was to be started")

    def test_command(self) -> None:
        command = self.prefix / "bin/penstock"
        self.assertRegex(answer(command, "--version"), r"^penstock [0-9.]+\nimages: JPEG, PNG, .*\ndatasets: folder, .*\nunpacks: .*\nurls: .*\n$")
        said = answer(command, "bench", support.dataset(), "--seconds", "0.2", "--batch-size", "4", "--json")
        self.assertIn('"images_per_s"', said)


if __name__ == "__main__":
    support.main()
