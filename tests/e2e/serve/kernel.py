#!/usr/bin/env python3
"""On a kernel older than Linux 5.4, the first line of the daemon, of the command and of a trainer that starts a daemon says so. The kernel
calls itself Linux 2.6 for processes that setarch starts (UNAME26 in personality(2))."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import *

OLD = ("setarch", "--uname-2.6")
SENTENCE = "this kernel is Linux 2.6."
NEEDS = "but penstock needs Linux 5.4 or later"


def old_kernel(*command, home, **variables):
    """Status and output of a command there."""
    if not shutil.which("setarch"):
        raise Skip("setarch is not installed (util-linux)")
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(home), "PENSTOCKD": tool("penstockd"), **variables}
    done = subprocess.run([*OLD, *map(str, command)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    return done.returncode, done.stdout


def first_line(text):
    return text.splitlines()[0] if text else ""


def test_daemon():
    with folder() as home:
        status, said = old_kernel(tool("penstockd"), "--socket", home / "s", home=home)
        assert status == 1, (status, said)
        assert SENTENCE in first_line(said) and NEEDS in first_line(said), said
        assert not (home / "s").exists()


def test_command():
    with folder() as home:
        make_dataset(home / "images", per_class=2)
        for words in (("check", home / "images"), ("bench", home / "images"), ("status",)):
            status, said = old_kernel(tool("penstock"), *words, home=home)
            assert status == 1, (status, said)
            assert SENTENCE in first_line(said) and NEEDS in first_line(said), said


def test_trainer():
    """Its private daemon does not start; the trainer repeats what that daemon said."""
    with folder() as home:
        make_dataset(home / "images", per_class=2)
        status, said = old_kernel(tool("dump_batches"), f"source={home / 'images'}", "private=1", "batch_size=4", "image_size=32", home=home)
        assert status not in (0, -6, -11), (status, said)
        assert SENTENCE in said and NEEDS in said, said


if __name__ == "__main__":
    run_tests(globals())
