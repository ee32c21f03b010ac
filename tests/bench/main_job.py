#!/usr/bin/env python3
"""What training gets: time until the first batch, time between batches, CPU time and memory; with penstock's decoder, and with libjpeg-turbo only.

    tests/bench/main_job.py BUILD IMAGES [--rounds 5] [--seconds 4] [--threads 2] [--samples 1000000] [--json FILE]

Each round runs `penstock bench` once in each way. Entry points exist from a run before. The second table is that of tests/memory/flat.py: the
peak of daemon and trainer together, with a budget of 96 MiB, on 500 samples and on an index of --samples. Prints tables in Markdown. Exit
status 1: a run failed, or memory is not what is promised."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FLAT = Path(__file__).resolve().parents[1] / "memory/flat.py"
FLAT_LINE = re.compile(r"^500 samples: ([\d.]+) MiB; (\d+) samples: ([\d.]+) MiB$", re.MULTILINE)
WHOLE_LINE = re.compile(r"^\d+ samples, all options as they are: ([\d.]+) MiB$", re.MULTILINE)
ROWS = (  # what, of a report, digits
    ("images/s", lambda report: report["images_per_s"], 0),
    ("first batch after the command began, s", lambda report: report["first_batch_s"], 2),
    ("between batches, median, ms", lambda report: report["batch_p50_ms"], 1),
    ("the same, 99th percentile", lambda report: report["batch_p99_ms"], 1),
    ("CPU of the daemon per image, us", lambda report: report["cpu_s"] / report["images"] * 1e6, 0),
    ("peak of daemon, recorder and trainer, MiB", lambda report: report["peak_memory_bytes"] / (1 << 20), 0),
)
WAYS = {"penstock": {}, "`PENSTOCK_DECODER=libjpeg`": {"PENSTOCK_DECODER": "libjpeg"}}


def bench(options, scratch, **environment):
    command = [Path(options.build) / "bin/penstock", "bench", options.images, "--threads", str(options.threads), "--seconds",
               str(options.seconds), "--json"]
    environment = {**os.environ, "XDG_CACHE_HOME": f"{scratch}/cache", "XDG_STATE_HOME": f"{scratch}/state", **environment}
    return json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, env=environment).stdout)


def flat(options):
    """(peak with all options as they are, [(of 500 samples, of many)]) in MiB."""
    environment = {**os.environ, "PENSTOCK_BIN": str(Path(options.build).resolve() / "bin"), "PENSTOCK_TEST_SAMPLES": str(options.samples)}
    done = subprocess.run([sys.executable, FLAT], env=environment, text=True, stdout=subprocess.PIPE, check=False)
    whole, pairs = WHOLE_LINE.search(done.stdout), FLAT_LINE.findall(done.stdout)
    if done.returncode or not whole or not pairs:
        sys.exit(f"main_job.py: {FLAT.name} ended with {done.returncode}:\n{done.stdout}")
    return float(whole[1]), [(float(few), float(many)) for few, _, many in pairs]


def show(figures, samples):
    print("| | " + " | ".join(WAYS) + " |\n|" + "---|" * (len(WAYS) + 1))
    for what, _, digits in ROWS:
        cells = [f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
                 for values in (figures["bench"][way][what] for way in WAYS)]
        print(f"| {what} | {' | '.join(cells)} |")
    print("\nMemory of daemon and trainer, `--memory 96M`; the promise is 128 MiB, and a difference of at most 2:\n")
    print("| samples | peak, MiB |\n|---|---|")
    few, many = min(pair[0] for pair in figures["flat"]), min(pair[1] for pair in figures["flat"])
    print(f"| 500, without cache and entry points | {few:.1f} |\n| {samples:,}, the same | {many:.1f} |")
    print(f"| {samples:,}, all options as they are | {figures['whole_mib']:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--json", help="where to write all figures")
    options = parser.parse_args()
    found = {way: {what: [] for what, _, _ in ROWS} for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="penstock-main-") as scratch:
        bench(options, scratch)  # makes index and entry points, warms the page cache
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            for way, environment in WAYS.items():
                report = bench(options, scratch, **environment)
                for what, figure, _ in ROWS:
                    found[way][what].append(figure(report))
    whole, pairs = flat(options)
    figures = {"bench": found, "whole_mib": whole, "flat": pairs}
    show(figures, options.samples)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
