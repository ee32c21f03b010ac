#!/usr/bin/env python3
"""Memory does not depend on the number of samples, and stays within what is promised.

    flat.py        PENSTOCK_TEST_SAMPLES: default 1,000,000, nightly 100,000,000

Measures from outside the proportional set size of daemon and trainer together (batch 64, 224 pixels, 2 threads, --memory 96M), on
500 pictures and on an index of so many that goes round and round over the same pictures. Fails when any exceeds 128 MiB,
or when the two differ by more than 2 MiB. They are compared with the cache off, which is there to take what the budget leaves, and is used
for the large one alone; and without entry points, which are made for every picture of the large one, but once for each of the small. A peak depends on what happens to be in flight together and varies by as much; what the
number of samples adds is in every one. So where the two differ they are measured again, and the lowest peaks of each count."""
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import NIGHTLY, Daemon, Skip, folder, make_dataset, promise, run_tests, tool  # noqa: E402

SAMPLES = int(os.environ.get("PENSTOCK_TEST_SAMPLES", "100000000" if NIGHTLY else "1000000"))
LIMIT_MIB, FLAT_MIB, WATCH_S, ROUNDS = 128, 2, 4, 4
ALIKE = ["--cache", "off", "--no-entry-points"]


def pss_mib(pid):
    """Proportional set size; 0 once the process has gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) / 1024
    except (OSError, ProcessLookupError):
        pass
    return 0


def peak(home, tar, *options):
    """The highest sum of both processes while batches flow, sampled every 20 ms for WATCH_S seconds after the first batch."""
    with Daemon(home, "--memory", "96M", "--threads", "2", *options) as daemon:
        trainer = daemon.trainer(source=tar, batch_size=64, image_size=224)
        assert trainer.line()[:1].isdigit(), trainer.seen
        highest, end = 0, time.monotonic() + WATCH_S
        os.set_blocking(trainer.process.stdout.fileno(), False)
        while time.monotonic() < end:
            assert trainer.process.poll() is None, "the trainer ended"
            trainer.process.stdout.buffer.read()  # its pipe must not fill up
            highest = max(highest, pss_mib(daemon.process.pid) + pss_mib(trainer.process.pid))
            time.sleep(0.02)
        trainer.kill()
    return highest


def test_flat():
    if not os.path.exists("/proc/self/smaps_rollup"):
        raise Skip("this kernel has no smaps_rollup")
    os.environ.pop("MALLOC_PERTURB_", None)  # touches memory that nobody uses
    with folder() as home:
        make_dataset(home / "tars", per_class=100, classes=5, tars=True, per_shard=500, min_side=200, max_side=600)
        tar = home / "tars/shard-000000.tar"
        make_dataset(home / "same", per_class=100, classes=5, tars=True, per_shard=500, min_side=200, max_side=600)
        large = home / "same/shard-000000.tar"
        subprocess.run([tool("make_index"), str(large), str(SAMPLES)], check=True)
        whole = peak(home, large)
        print(f"{SAMPLES} samples, all options as they are: {whole:.1f} MiB", flush=True)
        assert whole <= LIMIT_MIB, f"more than {LIMIT_MIB} MiB"
        few, many = [], []
        while not few or (abs(min(few) - min(many)) > FLAT_MIB and len(few) < ROUNDS):
            few.append(peak(home, tar, *ALIKE))
            many.append(peak(home, large, *ALIKE))
            print(f"500 samples: {few[-1]:.1f} MiB; {SAMPLES} samples: {many[-1]:.1f} MiB", flush=True)
            assert max(few + many) <= LIMIT_MIB, f"more than {LIMIT_MIB} MiB"
    assert abs(min(few) - min(many)) <= FLAT_MIB, f"differ by more than {FLAT_MIB} MiB"
    promise(f"{SAMPLES} samples: {whole:.1f} MiB for daemon and trainer, at most {LIMIT_MIB}; without the cache {min(many):.1f} against {min(few):.1f} of 500")


if __name__ == "__main__":
    run_tests(globals())
