#!/usr/bin/env python3
"""Runs what a page of the documentation shows: every fenced block of sh, python and c, in order.

    commands.py PAGE...     paths in the repository; needs PENSTOCK_BIN, and PYTHONPATH with the package

The page runs in a home folder of its own, with these in it: photos/ and imagenet/train/, imagenet/val/ (class folders of
small painted images), shards/train-000000.tar and train-000001.tar, libpenstock in .local/, and the programs of the build
in the PATH. A block runs unless an HTML comment in the line above it says otherwise:

    <!-- file: NAME -->       is written to a file of that name, and not run; the page's commands use it
    <!-- needs: MODULE -->    runs where Python has that module, and is counted as skipped elsewhere
    <!-- not run: REASON -->  cannot run on any plain machine; counted, with its reason

Blocks of sh share their folder and exported variables, blocks of python their names. A block of c without "file" has to
compile. Blocks in other languages (text, yaml, json) show what is printed or written, and do not run."""
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import harness  # noqa: E402

BLOCK = re.compile(r"(?:^ *<!-- (file|needs|not run): (.*?) -->\n+)?^( *)```(\w+)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LANGUAGES = ("sh", "python", "c")
LIMIT = 60 * harness.SLOW


def blocks(text):
    """(line, language, mark, its words, code) of each block."""
    for found in BLOCK.finditer(text):
        mark, words, _, language, code = found.groups()
        line = text.count("\n", 0, found.start(5))
        if language in LANGUAGES or mark == "file":
            yield line + 1, language, mark, words, textwrap.dedent(code)


def home_folder(home):
    """What the pages name."""
    made = Path(harness.make_dataset(home / "made", per_class=100))
    made.rename(home / "photos")
    (home / "imagenet").mkdir()
    for name in ("train", "val"):
        (home / "imagenet" / name).symlink_to(home / "photos")
    tars = Path(harness.make_dataset(home / "tars", per_class=100, tars=True, per_shard=150))
    (home / "shards").mkdir()
    for number, path in enumerate(sorted(tars.glob("*.tar"))):
        path.rename(home / f"shards/train-{number:06d}.tar")
    programs = home / "bin"
    programs.mkdir()
    for name in ("python3", "python"):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (programs / name).chmod(0o755)
    # As installing the client does, but without the build's list of installed files, which is its user's.
    build, prefix = harness.BIN.parent, home / ".local"
    shutil.copytree(ROOT / "include", prefix / "include")
    (prefix / "lib/pkgconfig").mkdir(parents=True)
    for library in (build / "lib").glob("libpenstock.*"):
        shutil.copy(library, prefix / "lib", follow_symlinks=False)
    shutil.copy(build / "penstock.pc", prefix / "lib/pkgconfig")


def environment(home):
    kept = {name: value for name, value in os.environ.items()
            if not re.match(r"PENSTOCK_(SOCKET|JOB)|SLURM_|TORCHELASTIC_|MASTER_|RANK$|WORLD_SIZE$|LOCAL_RANK$|XDG_|VIRTUAL_ENV", name)}
    (home / "run").mkdir(mode=0o700)
    return {**kept, "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "PENSTOCKD": harness.tool("penstockd"),
            "PENSTOCK_SOURCE": str(ROOT), "TMPDIR": str(home),
            "PATH": f"{home}/bin:{harness.BIN}:{os.environ['PATH']}"}


class Page:
    def __init__(self, name, home):
        self.name, self.home = name, home
        self.names = {"__name__": "__main__"}
        self.environment = environment(home)
        self.here = str(home)
        self.counts = {"ran": 0, "files": 0, "skipped": 0}

    def sh(self, where, code):
        """In a shell of its own, which hands its folder and its exported variables to the next."""
        after = self.home / ".after"
        script = f"set -euo pipefail\n{code}\n{{ pwd; env -0; }} >{after}\n"
        with tempfile.TemporaryFile() as out:
            run = subprocess.run(["bash", "-c", script], cwd=self.here, env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=subprocess.STDOUT, timeout=LIMIT, check=False)
            out.seek(0)
            said = out.read().decode(errors="replace")
        assert run.returncode == 0, f"{where}: ended with {run.returncode}:\n{said[-3000:]}"
        self.here, _, rest = after.read_text().partition("\n")
        self.environment = dict(entry.split("=", 1) for entry in rest.split("\0") if "=" in entry)

    def python(self, where, line, code):
        os.environ.clear()
        os.environ.update(self.environment)
        before = os.getcwd()
        os.chdir(self.here)
        try:
            exec(compile("\n" * (line - 1) + code, str(ROOT / self.name), "exec"), self.names)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        finally:
            os.chdir(before)

    def c(self, where, code):
        source = self.home / "block.c"
        source.write_text(code)
        command = [os.environ.get("CC", "cc"), "-std=gnu17", "-Wall", "-Werror", "-fsyntax-only", f"-I{ROOT}/include", str(source)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert run.returncode == 0, f"{where}: does not compile:\n{run.stderr}"

    def block(self, line, language, mark, words, code):
        where = f"{self.name}:{line}"
        if mark == "not run":
            print(f"{where}: not run: {words}")
            self.counts["skipped"] += 1
        elif mark == "needs" and importlib.util.find_spec(words) is None:
            print(f"{where}: not run: Python has no {words}")
            self.counts["skipped"] += 1
        elif mark == "file":
            path = Path(self.here) / os.path.expanduser(words)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code)
            self.counts["files"] += 1
        else:
            begin = time.monotonic()
            {"sh": lambda: self.sh(where, code), "c": lambda: self.c(where, code),
             "python": lambda: self.python(where, line, code)}[language]()
            print(f"{where}: {language}, {time.monotonic() - begin:.1f} s")
            self.counts["ran"] += 1


def end_daemons(home):
    """Processes that the page has started and left: daemons in this home folder."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if int(pid) != os.getpid() and f"HOME={home}".encode() in variables:
                os.kill(int(pid), signal.SIGTERM)


def run_page(name):
    found = list(blocks((ROOT / name).read_text(encoding="utf-8")))
    if not found:
        print(f"{name} shows no command")
        return
    with harness.folder() as home:
        home_folder(home)
        page = Page(name, home)
        try:
            for block in found:
                page.block(*block)
        finally:
            page.names.clear()
            end_daemons(home)
        print(f"{name}: " + ", ".join(f"{count} {what}" for what, count in page.counts.items()))


def main():
    if importlib.util.find_spec("numpy") is None:
        print(f"skipped: {sys.executable} has no numpy")
        return 77
    signal.alarm(int(4 * LIMIT))
    for name in sys.argv[1:]:
        run_page(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
