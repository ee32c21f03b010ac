"""A clone in a folder that only its owner may enter, as root's home: tests that start programs as another user start copies of them."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness
from harness import AS_NOBODY, LIMIT, NOBODY, Skip, folder, make_dataset, may_start, run_tests, tool, tools_for


def closed(home):
    """A folder bin in a folder that only root may enter, with the programs that the tests below start."""
    build = home / "closed/build"
    (build / "bin").mkdir(parents=True)
    (home / "closed").chmod(0o700)
    home.chmod(0o755)
    for name in ("penstock", "penstockd", "dump_batches", "make_dataset"):
        shutil.copy(tool(name), build / "bin" / name)
    (build / "lib").symlink_to(harness.BIN.parent / "lib")
    return build / "bin"


def as_nobody(*command, **keys):
    return subprocess.run([*AS_NOBODY, *map(str, command)], capture_output=True, text=True, timeout=LIMIT, **keys)


def test_copies_are_started():
    if os.geteuid():
        raise Skip("only root can become another user")
    build, libraries = harness.BIN, os.environ.get("LD_LIBRARY_PATH")
    with folder() as home:
        harness.BIN = closed(home)
        images = make_dataset(home / "images", per_class=2)
        try:
            assert not may_start(NOBODY, tool("penstockd"))
            with tools_for(NOBODY):
                copies = harness.BIN.parent
                assert may_start(NOBODY, tool("penstockd")) and not copies.is_relative_to(home)
                answer = as_nobody(tool("penstock"), "--version")
                assert answer.returncode == 0 and answer.stdout.startswith("penstock "), answer
                # A trainer finds the daemon that it starts beside the library, which was copied too.
                run = home / "run"
                run.mkdir()
                os.chown(run, NOBODY, NOBODY)
                places = {name: str(run) for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR")}
                answer = as_nobody(tool("dump_batches"), f"source={images}", "batch_size=2", "image_size=16", "epochs=1",
                                   env={**os.environ, **places})
                assert answer.returncode == 0 and "\nend" in answer.stdout, answer
            assert harness.BIN == home / "closed/build/bin" and not copies.exists()
            assert os.environ.get("LD_LIBRARY_PATH") == libraries
        finally:
            harness.BIN = build


def test_an_open_build_is_used_as_it_is():
    if os.geteuid():
        raise Skip("only root can become another user")
    if not may_start(NOBODY, tool("penstockd")):
        raise Skip("this build's folder is closed to other users")
    build = harness.BIN
    with tools_for(NOBODY):
        assert harness.BIN == build


def test_where_nobody_else_can_go():
    """A temporary folder that is closed too, and a user who is not root: skipped, with a word."""
    with folder() as home:
        before, tempfile.tempdir = tempfile.tempdir, str(home)
        try:
            with tools_for(NOBODY):
                raise AssertionError("it was to be skipped")
        except Skip as reason:
            wanted = "only root" if os.geteuid() else "set TMPDIR to a folder that all users can enter"
            assert wanted in str(reason), reason
        finally:
            tempfile.tempdir = before


if __name__ == "__main__":
    run_tests(globals())
