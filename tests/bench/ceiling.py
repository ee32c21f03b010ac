#!/usr/bin/env python3
"""Where the threads that work one after the other would be full: fetch and the event loop.

    tests/bench/ceiling.py BUILD IMAGES [--samples 20000] [--lanes 1,2,4] [--json FILE]

Fetch is driven by the program `ceiling`, with nothing after it: no decoding, no batches. Four sources: the JPEGs of the folder
IMAGES as a folder and as a tar (each 16 times, through hard links, so that samples under way are different ones), the same past
the page cache, and 10,000 files of about 1 KB. Prints, for 1, 2 and 4 lanes, the CPU time per sample of the busiest thread of
fetch, what of it is more than copying the same bytes out of the page cache takes, how long the locks are held per sample, and
the samples per second at which one lane and all lanes would be full: 1 second divided by the CPU time of a sample, times the
lanes. That projection holds for as many cores as there are lanes, besides those that decode.

The event loop is measured in a whole daemon (`penstock bench` of the tars, rows of 32 pixels), by its thread's CPU time per image.

Locks are measured in a run of their own, whose times are not used. Exit status 1: a sample was not read."""
import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

COPIES = 16
SMALL = 10_000


def sources(images, folder):
    """{name: (spec, io)}; everything is made below `folder`."""
    originals = sorted(path for path in Path(images).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not originals:
        sys.exit(f"ceiling.py: no JPEGs in {images}")
    whole, small = folder / "originals", folder / "small" / "c0"
    small.mkdir(parents=True)
    (whole / "c00").mkdir(parents=True)
    with tarfile.open(folder / "originals-00.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, path in enumerate(originals):
            (whole / "c00" / f"{number:06d}.jpg").write_bytes(path.read_bytes())
            tar.add(path, arcname=f"{number:06d}.jpg")
    for copy in range(1, COPIES):
        (whole / f"c{copy:02d}").mkdir()
        for path in (whole / "c00").iterdir():
            os.link(path, whole / f"c{copy:02d}" / path.name)
        os.link(folder / "originals-00.tar", folder / f"originals-{copy:02d}.tar")
    content = originals[0].read_bytes()
    for number in range(SMALL):
        (small / f"{number:06d}.jpg").write_bytes(content[:900 + number % 300])
    tars = f"{folder}/originals-{{00..{COPIES - 1:02d}}}.tar"
    return {
        "originals, folder": (str(whole), "buffered"),
        "originals, folder, past the page cache": (str(whole), "direct"),
        "originals, tars": (tars, "buffered"),
        "originals, tars, past the page cache": (tars, "direct"),
        "1 KB files, folder": (str(small.parent), "buffered"),
    }


def run(build, spec, lanes, io, samples, locks=False):
    environment = dict(os.environ)
    environment.pop("CEILING_LOCKS", None)
    if locks:
        environment["CEILING_LOCKS"] = "1"
    done = subprocess.run([f"{build}/bin/ceiling", spec, str(lanes), io, str(samples)], env=environment, stdout=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode:
        sys.exit(f"ceiling.py: `ceiling {spec} {lanes} {io}` ended with {done.returncode}")
    return json.loads(done.stdout)


def lock_times(locks):
    """{planner, inbox, arena, meter: [ns a sample, longest in us]}, the busiest of several lanes."""
    found = {}
    for name, use in locks.items():
        if name == "samples":
            continue
        kind = name.split("_")[0]
        before = found.get(kind, [0, 0])
        found[kind] = [max(before[0], use["ns_per_sample"]), max(before[1], use["longest_us"])]
    return found


def fetch(build, name, spec, io, lanes, samples):
    got = run(build, spec, lanes, io, samples)
    locked = run(build, spec, lanes, io, samples, locks=True)
    busiest = max(thread["cpu_us_per_sample"] for thread in got["threads"])
    result = {
        "source": name,
        "lanes": got["lanes"],
        "mean_bytes": got["mean_bytes"],
        "cpu_us": busiest,
        "copy_us": got["copy_us_per_sample"],
        "beyond_us": busiest - got["copy_us_per_sample"],
        "consumer_us": got["consumer_us_per_sample"],
        "share": max(thread["samples"] for thread in got["threads"]) / got["samples"],
        "locks": lock_times(locked["locks"]),
        "measured_per_s": got["samples_per_s"],
    }
    # The lane with the largest part of the samples is full first.
    result["full_per_s"] = 1e6 / busiest / result["share"]
    print(f"| {name} | {result['lanes']} | {busiest:.1f} | {result['beyond_us']:.1f} | {result['full_per_s']:,.0f} | "
          + ", ".join(f"{kind} {ns:.0f} ns" for kind, (ns, _) in sorted(result["locks"].items())) + " |", flush=True)
    return result


def thread_cpu_s(pid, name):
    """CPU seconds of the threads of a process with this name."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            if (task / "comm").read_text().strip() == name:
                total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total / 1e9


def child(pid):
    """The daemon that `penstock bench` has started."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if int(text[text.rindex(")") + 2:].split()[1]) == pid:
            return int(path.parent.name)
    return None


def event_loop(build, images, batch, seconds=10):
    """CPU us per image of the event loop, in a daemon that makes rows of 32 pixels."""
    command = [f"{build}/bin/penstock", "bench", images, "--batch-size", str(batch), "--image-size", "32", "--seconds", str(seconds),
               "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as bench:
        time.sleep(seconds / 3)
        daemon = child(bench.pid)
        times = []
        for _ in range(2):
            times.append((time.monotonic(), thread_cpu_s(daemon, "penstock-serve") if daemon else 0))
            time.sleep(seconds / 2)
        told = json.loads(bench.communicate()[0] or "{}")
    rate = told.get("images_per_s") or told.get("images_per_second")
    if bench.returncode or not rate or not daemon:
        sys.exit(f"ceiling.py: `{' '.join(command)}` measured nothing")
    us = (times[1][1] - times[0][1]) / (times[1][0] - times[0][0]) / rate * 1e6
    print(f"| the event loop, batches of {batch} | 1 | {us:.2f} | | {1e6 / us if us else float('inf'):,.0f} | |", flush=True)
    return {"source": f"event loop, batch {batch}", "cpu_us": us, "images_per_s": rate}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--lanes", default="1,2,4")
    parser.add_argument("--json")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="penstock-ceiling-") as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        print("| source | lanes | CPU us per sample | beyond the copy | full at samples/s | locks held per sample |")
        print("|---|---|---|---|---|---|")
        made = sources(options.images, Path(folder))
        for name, (spec, io) in made.items():
            for lanes in options.lanes.split(","):
                results.append(fetch(options.build, name, spec, io, int(lanes), options.samples))
        for batch in (32, 256):
            results.append(event_loop(options.build, made["originals, tars"][0], batch))
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
