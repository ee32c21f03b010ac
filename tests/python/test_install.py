"""The install component `python`, from which wheels are made: a package that runs from any folder,
with nothing else installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, Optional

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

    def lay_out(self, name: str, packages: Optional[str], version: str) -> Path:
        """A prefix as pip makes it, with the script, and with the package in the folder `packages`. Returns the script."""
        prefix = support.folder / name
        (prefix / "bin").mkdir(parents=True)
        script = Path(shutil.copy(self.prefix / "bin/penstockd", prefix / "bin"))
        if packages is not None:
            (prefix / packages / f"penstock-{version}.dist-info").mkdir(parents=True)
            (prefix / packages / "penstock").mkdir()
            shutil.copy(self.prefix / "penstock/penstockd", prefix / packages / "penstock")
        return script

    def test_daemon_as_a_program(self) -> None:
        """It is a script, in wheels too, and becomes the program beside the extension."""
        script = self.prefix / "bin/penstockd"
        self.assertEqual(script.read_bytes()[:2], b"#!")
        expected = answer(self.prefix / "penstock/penstockd", "--version")
        self.assertEqual(answer(script, "--version"), expected)
        version = expected.split()[1]
        places = {
            "a venv": "lib/python3.11/site-packages",
            "lib64": "lib64/python3.9/site-packages",
            "of Debian": "lib/python3.11/dist-packages",
            "by --target": ".",
        }
        for name, packages in places.items():
            with self.subTest(name):
                script = self.lay_out(name, packages, version)
                self.assertEqual(answer(script, "--version"), expected)
                link = script.parent.parent / "link"  # as pipx makes it
                link.symlink_to(script)
                self.assertEqual(answer(link, "--version"), expected)

    def test_daemon_of_another_release(self) -> None:
        """Two Pythons share a prefix: the script runs the program that was installed with it."""
        version = answer(self.prefix / "penstock/penstockd", "--version").split()[1]
        script = self.lay_out("shared", "lib/python3.12/site-packages", version)
        other = script.parent.parent / "lib/python3.10/site-packages"
        (other / "penstock-0.0.1.dist-info").mkdir(parents=True)
        (other / "penstock").mkdir()
        (other / "penstock/penstockd").symlink_to("/bin/false")
        self.assertIn(version, answer(script, "--version"))

    def test_daemon_without_the_package(self) -> None:
        script = self.lay_out("half", None, "")
        done = subprocess.run([script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^penstockd: the program of penstock [0-9.]+ is missing \(looked .*/half/lib.*install penstock again\n$")

    def test_beside_python(self) -> None:
        """The script stands beside python where no virtual environment is used: the loader starts the program all the same."""
        python = self.prefix / "bin/python"
        shutil.copy(os.path.realpath(sys.executable), python)
        self.addCleanup(python.unlink)
        kept = (self.prefix / "bin/penstockd").read_text()
        self.addCleanup((self.prefix / "bin/penstockd").write_text, kept)
        (self.prefix / "bin/penstockd").write_text("#!/bin/sh\nexit 3\n")
        here = {"PYTHONPATH": os.pathsep.join([str(self.prefix), *filter(None, sys.path)]), "PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}",
                "LD_LIBRARY_PATH": os.path.join(sys.base_exec_prefix, "lib"), "XDG_RUNTIME_DIR": str(support.folder / "beside")}
        (support.folder / "beside").mkdir(mode=0o700)
        said = answer(python, "-B", "-c", THREE_LINES, support.dataset(), **here).split("\n")
        self.assertEqual(said[-2], "True", "the package's program was to be started")


if __name__ == "__main__":
    support.main()
