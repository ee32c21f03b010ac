"""Resume equality: from every place of a row, at world sizes 1 to 4 before and after, at 1, 2 and 4 threads, in training and
evaluation, the samples before and after, put together, are the undisturbed row. Thinned out in CI; every place nightly
(resume.c does the reading)."""
import re
import subprocess

from faults import NIGHTLY, SLOW, say
from harness import LIMIT, Daemon, folder, make_dataset, run_tests, tool

WORLDS = 4
# 66 samples: with batches of 4 every world size has a short tail, of 2, 2, 6 and 2 samples.
SHAPE = {"batch_size": 4, "epochs": 2, "worlds": WORLDS}
EVERY = 1 if NIGHTLY else 11 if SLOW == 1 else 40
AFTER = [0, 5]  # the batch size after a resume; 0: the same


def resume(daemon, source, **keys):
    """The output of fault_resume, which must not depend on the daemon."""
    command = [tool("fault_resume"), f"socket={daemon.socket}", f"source={source}", *(f"{k}={v}" for k, v in {**SHAPE, **keys}.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * LIMIT, check=False)
    assert done.returncode == 0, f"{keys}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def run_recipe(recipe):
    said = {}
    with folder() as home:
        make_dataset(home / "images", per_class=22, min_side=24, max_side=40)
        for threads in (1, 2, 4):
            with Daemon(home, "--threads", threads) as daemon:
                for after in AFTER:
                    text = resume(daemon, home / "images", **recipe, after=after, every=EVERY)
                    assert said.setdefault(after, text) == text, f"the same at {threads} threads"
    resumes = sum(int(re.search(r"resumes (\d+)", text)[1]) for text in said.values())
    rows = sum(int(re.search(r"rows (\d+)", text)[1]) for text in said.values())
    say(f"world sizes 1 to {WORLDS}, threads 1, 2, 4, {'every place' if EVERY == 1 else f'every {EVERY}th place (all of them nightly)'}: "
        f"{3 * resumes} resumes, {3 * rows} samples compared")


def test_training():
    run_recipe({"train": 1, "drop_last": 1, "seed": 1})


def test_training_with_its_tail():
    run_recipe({"train": 1, "drop_last": 0, "seed": 2})


def test_evaluation():
    run_recipe({"train": 0, "drop_last": 0})


if __name__ == "__main__":
    run_tests(globals())
