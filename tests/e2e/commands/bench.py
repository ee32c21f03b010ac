"""What `penstock bench` measures: over time, with simulated trainers and accelerators, from a cold cache; and how it refuses bad input.

Nothing here depends on how fast the machine is: what is compared are numbers of one run, and bounds that hold by construction (a trainer that
works 50 ms on each batch cannot take one more often)."""
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import assert_clean, children, is_daemon, refuse, run, start
from harness import LIMIT, NOBODY, Skip, folder, make_dataset, run_tests, tools_for, wait_until

SMALL = ["-b", 8, "--image-size", 32]


def measure(home, *args, **keys):
    return json.loads(run(home, "bench", *args, "--json", **keys)[0])


def dataset(home, **keys):
    return make_dataset(home / "images", **{"max_side": 96, **keys})


# ---- bad input ----

def test_options_that_cannot_be():
    cases = [
        (["--step-ms", "0"], "--step-ms: expected milliseconds, more than 0 and at most 3600000"),
        (["--step-ms", "-5"], "--step-ms: expected milliseconds"),
        (["--step-ms", "1e400"], "--step-ms: expected milliseconds"),
        (["--rate", "0"], "--rate: expected a whole number from 1"),
        (["--rate", "99999999999999999999"], "--rate: expected a whole number from 1"),
        (["--rate", "1.5"], 'got "1.5"'),
        (["--step-ms", "5", "--rate", "5"], "--step-ms and --rate both set the trainer's speed; leave one out"),
        (["--step-ms", "3000", "--seconds", "2"], "takes none in --seconds 2; give more --seconds, or a smaller --step-ms"),
        (["--rate", "3", "--seconds", "2"], "every 21.3333 s takes none in --seconds 2"),
        (["--accelerators", "0"], 'from 1 to 64, or auto, got "0"'),
        (["--accelerators", "65"], 'got "65"'),
        (["--accelerators", "99999999999999999999999"], "--accelerators: expected a whole number"),
        (["--accelerators", "automatic"], 'or auto, got "automatic"'),
        (["--accelerators", "-1"], 'got "-1"'),
        (["--accelerators", ""], "--accelerators: expected N|auto, got an empty text"),
        (["--accelerators", "2", "--trainers", "2"], "--trainers cannot be given with it"),
        (["--accelerators", "2", "--rate", "9"], "--rate cannot be given with --accelerators; --step-ms changes the time"),
        (["--accelerators", "2", "--share", "all"], "--share must be split (ranks of one job) or private (a stream each)"),
        (["--accelerators", "2", "--eval"], "--accelerators simulates training; leave out --eval"),
        (["--accelerators", "2", "--profile", "h200"], '--profile: expected one of h100|a100, got "h200"'),
        (["--accelerators", "2", "--seconds", "0.1"], "every 0.224 s takes none in --seconds 0.1"),
        (["--profile", "a100"], "--profile is for --accelerators, which is not given"),
    ]
    with folder() as home:
        for args, says in cases:
            refuse(home, "bench", "x", *args, says=says)
        refuse(home, "bench", "stream:a", "--cold", says=["the running daemon reads stream:a", "name the folder or tar files"])
        refuse(home, "bench", "stream:a", "--accelerators", 1, says="the running daemon's configuration defines the batches of stream:a")
        images = dataset(home, per_class=10, classes=2)
        refuse(home, "bench", images, "--accelerators", 1, says="has 20 samples, not enough for a batch of 400; give a smaller --batch-size")
        refuse(home, "bench", images, "--accelerators", 3, "-b", 8, says=["not enough for a batch of 8 for each of 3", "--share private"])
        refuse(home, "bench", images, "--accelerators", 2, "-b", 8, "--memory", "8M", says=["2 accelerators with batches of 8 need --memory", "--memory gives 8.0 MiB"])
        refuse(home, "bench", home / "none", "--accelerators", 2, says="none")
        assert_clean(home)


# ---- over time, quantiles ----

def test_series_and_quantiles_are_of_the_window():
    with folder() as home:
        got = measure(home, dataset(home), "--seconds", "0.6", "-n", 2, *SMALL, "--threads", 2)
        series = got["series"]
        assert abs(sum(s["images"] for s in series) - got["images"]) < 1, (got["images"], series)
        assert all(a["t_s"] < b["t_s"] for a, b in zip(series, series[1:])) and series[-1]["t_s"] >= 0.6 - 0.001, series
        before = 0
        for s in series:
            assert 0 <= s["waits"] <= 1 and s["memory_bytes"] > 1 << 20 and s["cpu"] >= 0 and s["bytes_read"] >= 0, s
            span = s["t_s"] - before
            assert abs(s["images_per_s"] * span - s["images"]) < (0.02 + 0.0002 / span) * s["images"] + 1, s
            before = s["t_s"]
        assert max(s["memory_bytes"] for s in series) <= got["peak_memory_bytes"]
        for times in (got["batch_ms"], got["wait_ms"]):
            values = list(times.values())
            assert list(times) == ["p50", "p90", "p95", "p99", "p999", "max"] and values == sorted(values) and values[0] > 0, times
        assert abs(got["batch_ms"]["p50"] - got["batch_p50_ms"]) < 0.002 and abs(got["batch_ms"]["p99"] - got["batch_p99_ms"]) < 0.002
        assert 0 <= got["waits"] <= 1 and len(got["trainer_waits"]) == 2
        assert abs(sum(got["trainer_waits"]) / 2 - got["waits"]) < 0.001
        assert got["cgroup_peak_bytes"] is None or got["cgroup_peak_bytes"] > 0
        # The stages account for the CPU time that the kernel reports for the daemon, except for a small rest.
        assert sum(got["stages"].values()) < got["cpu_s"] * 1.2 + 0.05, got
        assert got["step_ms"] is got["rate"] is got["cold"] is got["accelerators"] is None
        assert_clean(home)


# ---- simulated trainers ----

def test_a_trainer_that_works():
    with folder() as home:
        images = dataset(home)
        got = measure(home, images, "--seconds", "1", "--step-ms", "50", *SMALL)
        assert got["step_ms"] == 50 and got["rate"] is None
        # It cannot be faster. How much slower it is depends on the machine, but it gets some batches.
        assert 8 <= got["images"] and got["images_per_s"] <= 8 / 0.05 * 1.001, got
        assert got["batch_ms"]["p50"] >= 49.7 and got["waits"] <= 1 - 0.05 * got["images_per_s"] / 8 + 0.01, got
        assert got["waits"] > 0.1 or got["verdict"].startswith("trainer-bound"), got["verdict"]
        assert_clean(home)


def test_trainers_with_a_rate():
    with folder() as home:
        got = measure(home, dataset(home), "--seconds", "0.8", "--rate", "100", "-n", 2, "--share", "private", *SMALL)
        assert got["rate"] == 100 and got["step_ms"] is None
        # Each of them. The last batch of a window may be as early as the one before it was late.
        assert 0 < got["images"] <= 100 * got["seconds"] + 8, got
        assert_clean(home)


# ---- a cold cache ----

def test_cold_drops_what_is_cached_and_storage_delivers_it_again():
    with folder() as home:
        tars = make_dataset(home / "tars", tars=True, max_side=96, per_class=30)
        size = sum(p.stat().st_size for p in Path(tars).iterdir() if p.suffix == ".tar")
        bench = ["bench", f"{tars}/*.tar", "--cold", "--seconds", "0.2", *SMALL]
        try:
            text = run(home, *bench)[0]
        except AssertionError as error:
            if "drop them" in str(error) or "tmpfs" in str(error):
                raise Skip("the temporary folder's file system keeps what is in the page cache") from error
            raise
        assert re.search(r"cold +\d.* dropped of .* left", text), text
        got = json.loads(run(home, *bench, "--json")[0])
        cold, shards, kept = got["cold"], len(list(Path(tars).glob("*.tar"))), len(list(Path(tars).glob("*.ckp")))
        assert list(cold) == ["files", "bytes", "cached_before", "cached_after", "epochs"], cold
        assert cold["files"] == 2 * shards + kept and shards > 1, f"{shards} tars, their indexes, {kept} files of checkpoints: {cold}"
        assert size <= cold["bytes"] and cold["cached_after"] <= cold["bytes"] / 100, (cold, size)
        assert cold["cached_before"] > cold["bytes"] / 2, "the run before left them there"
        assert got["bytes_read"] > size / 2, "what was dropped was read again"
        assert_clean(home)


def test_cold_in_a_file_system_that_is_memory():
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or not any(line.split()[1:3] == [str(memory), "tmpfs"] for line in open("/proc/mounts")):
        raise Skip("/dev/shm is no tmpfs that can be written")
    with folder() as home:
        place = memory / home.name
        try:
            make_dataset(place, per_class=4, max_side=80)
            refuse(home, "bench", place, "--cold", "-b", 4, says=["is memory (tmpfs)", "no run can be cold", "copy the dataset to a disk"])
            assert_clean(home)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def test_cold_of_somebody_elses_files():
    with tools_for(NOBODY), folder() as home:
        images = dataset(home, per_class=4)
        run(home, "check", images, "--index")
        os.chmod(home, 0o755)

        for name in ("cache", "tmp"):
            for path in (home / name, *(home / name).rglob("*")):
                os.chmod(path, 0o777 if path.is_dir() else 0o644)
        out, err = run(home, "bench", images, "--cold", "-b", 4, code=1, user=NOBODY, group=NOBODY, extra_groups=[])
        assert out == "" and "belongs to another user" in err and "as the files' owner" in err, err


# ---- accelerators ----

KEYS = ["count", "profile", "altered", "batch_size", "step_ms", "images_per_s_each", "utilisation", "utilisation_mean", "steps", "memory_bytes", "line", "passed",
        "fed", "fed_or_more", "fed_by", "free_images_per_s", "tries"]


def test_accelerators_are_as_busy_as_their_batches_say():
    with folder() as home:
        images = dataset(home)
        got = measure(home, images, "--accelerators", 2, "--step-ms", 40, "--seconds", 1, *SMALL)
        assert (got["trainers"], got["share"], got["batch_size"], got["step_ms"]) == (2, "split", 8, 40)
        a = got["accelerators"]
        assert list(a) == KEYS and (a["count"], a["profile"], a["altered"], a["batch_size"], a["line"]) == (2, "h100", True, 8, 0.9), a
        assert a["steps"] >= 20 * a["utilisation_mean"] - 1 and a["memory_bytes"] >= 2 * 4 * 8 * 32 * 32 * 3, a
        assert len(a["utilisation"]) == 2 and all(0 < u <= 1 for u in a["utilisation"]), a
        assert abs(sum(a["utilisation"]) / 2 - a["utilisation_mean"]) < 0.001 and a["passed"] == (a["utilisation_mean"] >= 0.9)
        for rate, used in zip(got["trainer_images_per_s"], a["utilisation"]):
            assert abs(rate * 0.04 / 8 - used) < 0.01, "utilisation is the batches' computing time"
        assert a["fed_by"] == "rate" and a["free_images_per_s"] is None and len(a["tries"]) == 1
        assert a["fed"] >= 2 if a["passed"] else a["fed"] < 2, a
        assert_clean(home)


def test_accelerators_of_the_profiles():
    """The budget is chosen automatically. The second time each accelerator reads the whole dataset, which is too small for two batches."""
    with folder() as home:
        images = dataset(home, per_class=140, max_side=72)
        got = measure(home, images, "--accelerators", 1, "--profile", "a100", "--seconds", "0.5", "--image-size", 48)
        a = got["accelerators"]
        assert (a["profile"], a["altered"], a["batch_size"], a["step_ms"]) == ("a100", False, 400, 435), a
        assert 0 < a["utilisation_mean"] <= 1 and got["batch_size"] == 400
        text = run(home, "bench", images, "--accelerators", 2, "--share", "private", "--seconds", "0.3", "--image-size", 48)[0]
        for words in ("2 x h100 (batches of 400, 224 ms each)", "the line of 90 %", "not a result of MLPerf Storage", "this machine"):
            assert words in " ".join(text.split()), text
        assert not [line for line in text.splitlines()[1:] if len(line) > 80], text
        assert "  verdict " in text[text.index("  accelerators "):], "the verdict comes last"
        assert_clean(home)


def test_accelerators_as_many_as_can_be_fed():
    with folder() as home:
        images = dataset(home, per_class=8, classes=2)
        got = measure(home, images, "--accelerators", "auto", "--step-ms", 150, "--seconds", "0.4", *SMALL)
        a = got["accelerators"]
        tried = {t["accelerators"]: t["passed"] for t in a["tries"]}
        assert tried and max(tried) <= 2, "16 samples are two batches of 8"
        assert a["free_images_per_s"] > 0 and all(0 < t["utilisation"] <= 1 for t in a["tries"]), a
        assert a["fed"] == max([n for n, passed in tried.items() if passed], default=0), a
        if a["fed"]:
            assert a["count"] == a["fed"] == got["trainers"] and a["passed"], a
        else:
            assert not a["passed"] and a["count"] == min(tried), a
        assert a["fed_or_more"] == (a["fed"] == 2) and a["fed_by"] == ("dataset" if a["fed"] == 2 else "tried"), a
        assert_clean(home)


def test_interrupted_between_two_daemons():
    """Runs follow each other in one process: the second daemon and its trainers end with it, as the first ones would."""
    with folder() as home:
        images = dataset(home, per_class=8, classes=2)
        bench = start(home, "bench", images, "--accelerators", "auto", "--step-ms", 100, "--seconds", "0.1", *SMALL)
        first = wait_until(lambda: [p for p in children(bench.pid) if is_daemon(p)], "a daemon")
        wait_until(lambda: [p for p in children(bench.pid) if is_daemon(p) and p not in first], "another one")
        wait_until(lambda: len(children(bench.pid)) >= 2, "its trainers")
        pids = children(bench.pid)
        bench.send_signal(signal.SIGINT)
        out, _ = bench.communicate(timeout=LIMIT)
        assert bench.returncode == -signal.SIGINT and out == "", (bench.returncode, out)
        assert_clean(home)
        wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), "the trainers' end")


def test_accelerators_that_memory_does_not_hold():
    with folder() as home:
        images = dataset(home, per_class=10, classes=2)
        refuse(home, "bench", images, "--accelerators", 2, "-b", 4, "--image-size", 2048, "--memory", "200M",
               says=["need --memory", "which is enough for 0", "--prefetch 2"])
        assert_clean(home)


if __name__ == "__main__":
    run_tests(globals())
