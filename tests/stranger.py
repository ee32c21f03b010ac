#!/usr/bin/env python3
"""A clone that has nothing beside it has the same tests: those that need more are registered, and skipped with a reason.

    stranger.py CMAKE SOURCE BUILD

Configures SOURCE without ../shared, without .venv and without photographs, with BUILD's options, and compares the names of the tests
and of the promises with BUILD's. Only the standard library."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

NOT_CLONED = {".git", ".venv", "build"}
OPTIONS = re.compile(r"^((?:PENSTOCK_|BUILD_|CMAKE_BUILD_TYPE|CMAKE_C_COMPILER|CMAKE_CXX_COMPILER|CMAKE_C_FLAGS)\w*):(\w+)=(.*)$")


def options(build):
    """What the user of this build has chosen, and what it found."""
    found = filter(None, map(OPTIONS.match, (build / "CMakeCache.txt").read_text().splitlines()))
    return [f"-D{name}:{kind}={value}" for name, kind, value in (match.groups() for match in found) if kind not in ("STATIC", "INTERNAL")]


def tests(ctest, build):
    """The names of all tests, the nightly ones too."""
    answer = subprocess.run([ctest, "--test-dir", build, "-C", "nightly", "-N"], capture_output=True, text=True, check=True)
    return set(re.findall(r"^ *Test +#\d+: (\S+)", answer.stdout, re.M))


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    cmake, source, build = map(Path, sys.argv[1:])
    ctest = cmake.with_name("ctest")
    generator = re.search(r"^CMAKE_GENERATOR:INTERNAL=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
    with tempfile.TemporaryDirectory(prefix="penstock-stranger-") as home:
        clone, other = Path(home, "alone", "penstock"), Path(home, "build")
        clone.mkdir(parents=True)
        for entry in sorted(set(os.listdir(source)) - NOT_CLONED):
            (clone / entry).symlink_to(source / entry)
        answer = subprocess.run([cmake, "-S", clone, "-B", other, "-G", generator, *options(build)], capture_output=True, text=True)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert not any((other / "photographs").iterdir()), "this clone has no photographs"
        mine, theirs = tests(ctest, build), tests(ctest, other)
        assert len(mine) > 100, mine
        for names, what in ((mine - theirs, "only with ../shared and .venv"), (theirs - mine, "only without them")):
            assert not names, f"registered {what}: {', '.join(sorted(names))}"
        for page in (build, other):
            promised = set((page / "promises.txt").read_text().split())
            assert promised == {name.removeprefix("promise.") for name in mine if name.startswith("promise.")}, page
        print(f"{len(mine)} tests, the same without ../shared, .venv and photographs")


if __name__ == "__main__":
    main()
