#!/usr/bin/env python3
"""How many images a second, as multiples of a yardstick, in every state of a dataset.

    tests/bench/rates.py BUILD IMAGES [--yardstick PROGRAM] [--rounds 5] [--seconds 5] [--rows NAME,NAME] [--kernels chosen,avx2,c]
                         [--torch PYTHON] [--json FILE]

BUILD holds bin/penstock, IMAGES a folder of JPEGs. The yardstick is full decode by libjpeg-turbo of the same files on the same cores:
BUILD/bin/yardstick, or another program that prints one JSON line with images_per_s when it is called with a folder, a number of threads
and seconds. Each round runs the yardstick and then every row once; what counts is the median over the rounds of a round's ratio, for
machines are noisy and drift. Rows:

  untouched       decoded from the first bit on: --no-entry-points
  entry-points    the same files, with entry points, which the round before made
  packed          by `penstock pack`, without loss
  packed-400      by `penstock pack`, to at most 400 pixels, quality 90
  libjpeg         untouched, PENSTOCK_DECODER=libjpeg
  progressive     progressive forms of the files, by jpegtran, where it is installed; their yardstick is that of these files
  large           12-megapixel JPEGs, --no-entry-points: photographs enlarged by Pillow, without noise and with the noise of a camera's
                  sensor; their yardstick is that of these files
  first-epoch     a first epoch, which also makes entry points, and --no-entry-points of the same length: the files many times over, and
                  a new cache folder in each round
  png             photographs as PNG, beside torchvision's PIL path with as many workers as there are threads (--torch names a Python that
                  has torch and torchvision), otherwise beside Pillow in as many processes
  hand-over       from a batch being complete until `next` returns it, with one decoding thread

--kernels chosen measures without forcing kernels only. Made-up sets are in a temporary folder (TMPDIR). Rows that need a program or a
module which is missing are left out, with a word. Prints tables in Markdown; --json FILE gets every figure of every round."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import sets

ROWS = ("untouched", "entry-points", "packed", "packed-400", "libjpeg", "progressive", "large", "first-epoch", "png", "hand-over")
KERNELS = ("chosen", "avx2", "c")
FIRST_EPOCH_S = 3  # of an epoch besides the window: the warm-up, the first batches, and room
FASTEST = 6  # images that penstock makes at most while the yardstick decodes one, in a first epoch


def run(arguments, **environment):
    done = subprocess.run(arguments, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def announced(report):
    """(median, 99th percentile) in microseconds of the time from a batch being complete until `next` returns, or None: an object
    announce_us with p50 and p99, or one key for each."""
    found = report.get("announce_us")
    pair = (found.get("p50"), found.get("p99")) if isinstance(found, dict) else (report.get("announce_p50_us"), report.get("announce_p99_us"))
    return None if None in pair else pair


class Bench:
    """What is measured: self.calls has a function for each row, self.bases the folder whose yardstick it is divided by, if
    any."""

    def __init__(self, options, scratch):
        self.options, self.scratch = options, Path(scratch)
        self.penstock = str(Path(options.build) / "bin/penstock")
        self.environment = {"XDG_CACHE_HOME": f"{scratch}/cache", "XDG_STATE_HOME": f"{scratch}/state"}
        self.calls, self.bases, self.fresh = {}, {}, 0
        for name in options.rows:
            getattr(self, "add_" + name.replace("-", "_"))()

    def bench(self, source, *arguments, threads=None, **environment):
        return run([self.penstock, "bench", source, "--threads", str(threads or self.options.threads), "--seconds", str(self.options.seconds),
                    "--json", *arguments], **{**self.environment, **environment})

    def add(self, name, data, kernels, source, *arguments, base=None, **environment):
        if kernels != "chosen":
            environment["PENSTOCK_KERNELS"] = kernels
        self.calls[name, data, kernels] = lambda: self.bench(source, *arguments, **environment)
        if name != "png":
            self.bases[name, data, kernels] = base or self.options.images

    def add_each(self, name, data, source, *arguments, **rest):
        for kernels in self.options.kernels:
            self.add(name, data, kernels, source, *arguments, **rest)

    def add_untouched(self):
        self.add_each("untouched", "untouched, `--no-entry-points`", self.options.images, "--no-entry-points")

    def add_entry_points(self):
        self.add_each("entry-points", "untouched, with entry points", self.options.images)

    def add_packed(self):
        self.add_each("packed", "packed lossless", self.pack("lossless"))

    def add_packed_400(self):
        self.add_each("packed-400", "packed `--max-side 400 --quality 90`", self.pack("lossy", "--max-side", "400", "--quality", "90"))

    def add_libjpeg(self):
        self.add("libjpeg", "untouched, `PENSTOCK_DECODER=libjpeg`", "chosen", self.options.images, PENSTOCK_DECODER="libjpeg")

    def add_progressive(self):
        folder = sets.progressive(self.options.images, f"{self.scratch}/progressive")
        if not folder:
            print("jpegtran is missing: no rows of progressive files", file=sys.stderr)
            return
        self.add_each("progressive", "progressive", folder, base=folder)
        self.add("progressive-libjpeg", "progressive, `PENSTOCK_DECODER=libjpeg`", "chosen", folder, base=folder, PENSTOCK_DECODER="libjpeg")

    def add_large(self):
        for name, data, noise in (("large", "12 megapixels, smooth, `--no-entry-points`", 0),
                                  ("large-noisy", "12 megapixels, noisy, `--no-entry-points`", sets.LARGE_NOISE)):
            found = sets.large(self.options.images, f"{self.scratch}/{name}", noise)
            if not found:
                print(f"{sys.executable} has no Pillow: no rows of 12-megapixel files", file=sys.stderr)
                return
            once, often = found
            self.add_each(name, data, often, "--no-entry-points", "--batch-size", "16", base=once)

    def add_first_epoch(self):
        files = sets.jpegs(self.options.images)
        enough = self.base(self.options.images) * FASTEST * (self.options.seconds + FIRST_EPOCH_S)
        folder = sets.copies(files, math.ceil(enough / len(files)), f"{self.scratch}/first")
        for name, data, arguments in (("first-epoch", "first epoch, which also makes entry points", []),
                                      ("first-epoch-without", "first epoch, `--no-entry-points`", ["--no-entry-points"])):
            self.calls[name, data, "chosen"] = lambda arguments=arguments: self.first_epoch(folder, arguments)
            self.bases[name, data, "chosen"] = self.options.images

    def first_epoch(self, folder, arguments):
        self.fresh += 1
        report = self.bench(folder, *arguments, XDG_CACHE_HOME=f"{self.scratch}/cache-{self.fresh}")
        found = report["checkpoints"]
        if found["used"] or (not arguments and not found["made"]):
            sys.exit(f"rates.py: this was no first epoch: {found['used']} images had entry points, {found['made']} got some")
        return report

    def add_png(self):
        folder = sets.png(self.options.images, f"{self.scratch}/png")
        if not folder:
            print(f"{sys.executable} has no Pillow: no rows of PNG", file=sys.stderr)
            return
        self.add("png", "PNG", "chosen", folder)
        key = ("png-peer", "Pillow", "chosen")
        program = [self.options.torch or sys.executable, str(Path(__file__).with_name("pillow_rate.py")), folder, "--workers",
                   str(self.options.threads), "--seconds", str(self.options.seconds)]
        self.calls[key] = lambda: run(program)

    def add_hand_over(self):
        key = ("hand-over", "hand-over", "chosen")
        self.calls[key] = lambda: self.bench(self.options.images, threads=1)

    def pack(self, name, *options):
        folder = self.scratch / name
        folder.mkdir()
        subprocess.run([self.penstock, "pack", self.options.images, folder / "x-%06d.tar", *options], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env=os.environ | self.environment)
        return str(folder / "x-*.tar")

    def base(self, images):
        rate = run([self.options.yardstick, images, str(self.options.threads), str(self.options.seconds)])["images_per_s"]
        if not rate:
            sys.exit(f"{self.options.yardstick} decoded nothing in {images}; expected a folder whose own files are JPEGs")
        return rate

    def round(self):
        """What each row gave: its report, and the yardstick's rate in this round."""
        rates = {base: self.base(base) for base in sorted(set(self.bases.values()))}
        return {key: (call(), rates.get(self.bases.get(key))) for key, call in self.calls.items()}


def table(header, rows):
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def stages(report):
    """CPU microseconds per image: read, what decode is made of, resample, hand-over."""
    names = {"checkpoints": "entry points"}
    parts = {"read": report["stages"]["read"], **{names.get(name, name): spent for name, spent in report["decode_stages"].items()},
             "resample": report["stages"]["pixel"], "hand-over": report["stages"]["serve"]}
    return {name: seconds / report["images"] * 1e6 for name, seconds in parts.items()}


def figures_of(results):
    """Of each row: what --json holds."""
    figures = []
    for key in results[0]:
        reports = [found[key][0] for found in results]
        bases = [found[key][1] for found in results]
        figure = {"row": key[0], "data": key[1], "kernels": key[2], "images_per_s": [report["images_per_s"] for report in reports]}
        if key[0] == "png-peer":
            figure["data"] = reports[0]["name"]
        elif key[0] == "hand-over":
            figure["announced_us"] = [announced(report) for report in reports]
        else:
            figure["fallbacks"] = sum(sum(report["fallbacks"].values()) for report in reports)
            costs = [stages(report) for report in reports]
            figure["stages_us"] = {name: statistics.median(cost[name] for cost in costs) for name in costs[0]}
            figure["cpu_us"] = statistics.median(sum(cost.values()) for cost in costs)
        if bases[0]:
            figure["yardstick"] = bases
            figure["ratios"] = [rate / base for rate, base in zip(figure["images_per_s"], bases)]
        figures.append(figure)
    return figures


def print_rates(figures):
    measured = [figure for figure in figures if "ratios" in figure]
    if not measured:
        return
    print("Images per second, and as multiples of the yardstick in the same round, with the least and the most:\n")
    table(["data", "kernels", "images/s", "yardstick's", "of the yardstick", "fallbacks"],
          [[figure["data"], figure["kernels"], f"{statistics.median(figure['images_per_s']):,.0f}",
            f"{statistics.median(figure['yardstick']):,.0f}", spread(figure["ratios"]), f"{figure['fallbacks']}"] for figure in measured])


def print_stages(figures):
    kept = [figure for figure in figures if "ratios" in figure and figure["kernels"] == "chosen"]
    if not kept:
        return
    print("CPU time of the daemon per image, microseconds and share:\n")
    rows = [[name] + [f"{figure['stages_us'][name]:.1f} ({figure['stages_us'][name] / figure['cpu_us']:.0%})" for figure in kept]
            for name in kept[0]["stages_us"]]
    table(["stage"] + [figure["data"] for figure in kept], rows + [["sum"] + [f"{figure['cpu_us']:.0f}" for figure in kept]])


def quotients(one, other):
    return [a / b for a, b in zip(one["images_per_s"], other["images_per_s"])]


def print_pairs(figures):
    """What is compared with another row, or is no rate."""
    rows = {figure["row"]: figure for figure in figures}
    if "first-epoch" in rows:
        ratio = quotients(rows["first-epoch"], rows["first-epoch-without"])
        print("Making entry points: a first epoch that makes them has this share of the rate of one without:\n")
        table(["", "median", "least to most"], [["first epoch, of `--no-entry-points`", f"{statistics.median(ratio):.3f}",
                                                 f"{min(ratio):.3f} to {max(ratio):.3f}"]])
    if "png" in rows:
        peer = rows["png-peer"]
        print(f"PNG, {sets.PNG_FILES} photographs at most, compression level 6:\n")
        table(["", "images/s", "times as fast"],
              [["penstock", f"{statistics.median(rows['png']['images_per_s']):,.0f}", spread(quotients(rows["png"], peer), 1)],
               [peer["data"], f"{statistics.median(peer['images_per_s']):,.0f}", ""]])
    if "hand-over" in rows:
        known = [pair for pair in rows["hand-over"]["announced_us"] if pair]
        cells = [spread([pair[number] for pair in known], 0) if known else "not reported" for number in (0, 1)]
        print("Hand-over, from a batch being complete until `next` returns it, one decoding thread:\n")
        table(["median, us", "99th percentile, us"], [cells])


def names_of(known):
    def names(text):
        found = text.split(",")
        for name in found:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name}: expected some of {','.join(known)}")
        return found
    return names


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--yardstick", help="default: BUILD/bin/yardstick")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=names_of(ROWS), default=list(ROWS), help="names, separated by commas")
    parser.add_argument("--kernels", type=names_of(KERNELS), default=list(KERNELS), help="names, separated by commas")
    parser.add_argument("--torch", help="a Python that has torch and torchvision, for the row png")
    parser.add_argument("--json", help="where to write all figures")
    options = parser.parse_args()
    options.yardstick = options.yardstick or str(Path(options.build) / "bin/yardstick")
    if not os.access(options.yardstick, os.X_OK):
        sys.exit(f"rates.py: there is no program {options.yardstick}; build the target yardstick, or name one with --yardstick")
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="penstock-rates-") as scratch:
        bench = Bench(options, scratch)
        bench.round()  # makes the entry points, warms the page cache
        results = []
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            results.append(bench.round())
    figures = figures_of(results)
    print(f"{options.rounds} rounds of {options.seconds:g} s each, {options.threads} threads.\n")
    print_rates(figures)
    print_stages(figures)
    print_pairs(figures)
    if options.json:
        found = {"rounds": options.rounds, "seconds": options.seconds, "threads": options.threads, "rows": figures}
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
