#!/usr/bin/env python3
"""The letters of contact sheets and plots, as the build makes them: make_font, and what CMake says where it cannot run.

    letters.py SOURCE BUILD
"""
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, Skip, folder, run_tests, tool

SOURCE, BUILD = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
MAKE_FONT, TABLE = BUILD / "client/cli/make_font", BUILD / "client/cli/font_table.h"


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT)


def fonts():
    """The fonts of this build, from CMake's cache."""
    if not MAKE_FONT.exists():
        raise Skip("this build takes its letters from PENSTOCK_FONT_TABLE")
    cache = (BUILD / "CMakeCache.txt").read_text()
    return [next(line.split("=", 1)[1] for line in cache.splitlines() if line.startswith(f"PENSTOCK_FONT_{name}:"))
            for name in ("DejaVuSans", "DejaVuSans-Bold")]


def test_the_command_needs_no_font_library():
    if not shutil.which("ldd"):
        raise Skip("there is no ldd here")
    done = run("ldd", tool("penstock"))
    assert done.returncode == 0 and "freetype" not in done.stdout and "fontconfig" not in done.stdout, done


def test_the_table_is_small_and_made_again_the_same():
    with folder() as home:
        done = run(MAKE_FONT, *fonts(), home / "again.h")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
        assert (home / "again.h").read_bytes() == TABLE.read_bytes()
    text = TABLE.read_text()
    coverage = text.partition("font_coverage[] = {")[2].partition("};")[0].count(",")
    assert 40_000 < coverage < 90_000, coverage


def test_make_font_refuses():
    with folder() as home:
        regular, bold = fonts()
        (home / "text.ttf").write_text("not a font")
        out = home / "table.h"
        for arguments, words in (((), "expected REGULAR.ttf BOLD.ttf OUTPUT"), ((regular, bold), "expected REGULAR.ttf"),
                                 ((regular, home / "none.ttf", out), f"{home}/none.ttf: not a font that FreeType reads"),
                                 ((home / "text.ttf", bold, out), f"{home}/text.ttf: not a font that FreeType reads"),
                                 ((regular, bold, home / "no/table.h"), f"{home}/no/table.h: cannot be written"),
                                 ((regular, bold, "/dev/full"), "/dev/full: cannot be written")):
            done = run(MAKE_FONT, *arguments)
            assert done.returncode == 1 and words in done.stderr, (arguments, done)


def test_cmake_names_what_is_missing():
    """A configuration without FreeType stops and names it; a table of another build takes its place."""
    with folder() as home:
        (home / "pkg-config").write_text('#!/bin/sh\ncase "$*" in *freetype2*) exit 1 ;; esac\nexec pkg-config "$@"\n')
        (home / "pkg-config").chmod(0o755)
        common = ["cmake", "-S", SOURCE, "-B", home / "b", "-DBUILD_TESTING=OFF", "-DPENSTOCK_CUDA=OFF",
                  f"-DPKG_CONFIG_EXECUTABLE={home}/pkg-config"]
        done = run(*common)
        said = " ".join(done.stderr.split())
        assert done.returncode and "Not found, or without headers: freetype2. `scripts/install-deps build` installs them" in said, done.stderr
        done = run(*common, "-DPENSTOCK_FONT_TABLE=/nowhere/font_table.h")
        said = " ".join(done.stderr.split())
        assert done.returncode and "PENSTOCK_FONT_TABLE: there is no file /nowhere/font_table.h; expected font_table.h of another build" in said, said
        done = run(*common, f"-DPENSTOCK_FONT_TABLE={TABLE}")
        assert done.returncode == 0, done.stderr
        assert (home / "b/client/cli/font_table.h").read_bytes() == TABLE.read_bytes()


if __name__ == "__main__":
    run_tests(globals())
