"""Processes that fill and evict one cache of remote data are killed (cache_kills.c)."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import NIGHTLY, promise, run_tests, tool  # noqa: E402


def test_kills():
    kills = 1000 if NIGHTLY else 60
    seed = os.environ.get("PENSTOCK_TEST_SEED", "5")
    home = Path(tempfile.mkdtemp(prefix="penstock-cache-"))
    try:
        done = subprocess.run([tool("cache_kills"), str(home / "cache"), str(kills), seed], capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"seed {seed}: {done.stderr}"
        promise(done.stdout.strip())
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    run_tests(globals())
