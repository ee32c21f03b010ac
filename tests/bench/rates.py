#!/usr/bin/env python3
"""How many images a second, as multiples of a yardstick, in every state of a dataset.

    tests/bench/rates.py BUILD IMAGES YARDSTICK [ROUNDS [SECONDS]]

BUILD holds bin/penstock, IMAGES a folder, YARDSTICK a program that prints one JSON line with images_per_s when it is called with a
folder, a number of threads and seconds: full decode by libjpeg-turbo of the same files on the same cores. Each round runs the
yardstick and then every state once; what counts is the median over the rounds of a round's ratio, for machines are noisy and drift.
States: untouched without and with checkpoints, packed without loss, packed to 400 pixels at quality 90; the first three also with
kernels forced; and progressive forms of the same files, made by jpegtran where it is installed, as a multiple of the yardstick
for these. The packed and the progressive sets are made first, in a temporary folder. Prints tables in Markdown."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

THREADS = 2
PROGRESSIVE = ("progressive", "progressive, `PENSTOCK_DECODER=libjpeg`")  # whose yardstick is that of the progressive files


def run(arguments, **environment):
    done = subprocess.run(arguments, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


class Bench:
    def __init__(self, build, images, yardstick, seconds, scratch):
        self.penstock = os.path.join(build, "bin", "penstock")
        self.images, self.yardstick, self.seconds = images, yardstick, seconds
        self.environment = {"XDG_CACHE_HOME": os.path.join(scratch, "cache"), "XDG_STATE_HOME": os.path.join(scratch, "state")}
        self.packed = {name: self.pack(os.path.join(scratch, name), options)
                       for name, options in {"lossless": [], "lossy": ["--max-side", "400", "--quality", "90"]}.items()}

        self.progressive = self.transcode(os.path.join(scratch, "progressive")) if shutil.which("jpegtran") else None

    def transcode(self, folder):
        """Progressive files of the images, in one flat folder, as a yardstick reads them; those that jpegtran refuses are left out."""
        os.mkdir(folder)
        for where, _, names in os.walk(self.images):
            for name in names:
                to = os.path.join(folder, f"{os.path.basename(where)}-{os.path.splitext(name)[0]}.jpg")
                with open(to, "wb") as out:
                    done = subprocess.run(["jpegtran", "-copy", "none", "-progressive", os.path.join(where, name)], stdout=out,
                                          stderr=subprocess.DEVNULL, check=False)
                if done.returncode or not os.path.getsize(to):
                    os.unlink(to)
        return folder

    def pack(self, folder, options):
        os.mkdir(folder)
        subprocess.run([self.penstock, "pack", self.images, os.path.join(folder, "x-%06d.tar"), *options], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return os.path.join(folder, "x-*.tar")

    def measure(self, source, *options, **environment):
        return run([self.penstock, "bench", source, "--threads", str(THREADS), "--seconds", str(self.seconds), "--json", *options],
                   **self.environment, **environment)

    def states(self, kernels):
        return {
            "untouched, `--no-entry-points`": lambda: self.measure(self.images, "--no-entry-points", PENSTOCK_KERNELS=kernels),
            "untouched, with checkpoints": lambda: self.measure(self.images, PENSTOCK_KERNELS=kernels),
            "packed lossless": lambda: self.measure(self.packed["lossless"], PENSTOCK_KERNELS=kernels),
            "packed `--max-side 400 --quality 90`": lambda: self.measure(self.packed["lossy"], PENSTOCK_KERNELS=kernels),
        }

    def all_states(self):
        found = {(state, "chosen"): call for state, call in self.states("").items()}
        for kernels in ["avx2", "c"]:
            for state, call in self.states(kernels).items():
                found[state, kernels] = call
        found["untouched, `PENSTOCK_DECODER=libjpeg`", "chosen"] = lambda: self.measure(self.images, PENSTOCK_DECODER="libjpeg")
        if self.progressive:
            for kernels in ["", "avx2", "c"]:
                found[PROGRESSIVE[0], kernels or "chosen"] = lambda k=kernels: self.measure(self.progressive, PENSTOCK_KERNELS=k)
            found[PROGRESSIVE[1], "chosen"] = lambda: self.measure(self.progressive, PENSTOCK_DECODER="libjpeg")
        return found

    def base(self, images):
        rate = run([self.yardstick, images, str(THREADS), str(self.seconds)])["images_per_s"]
        if not rate:
            sys.exit(f"{self.yardstick} decoded nothing in {images}; expected a folder whose own files are JPEGs")
        return rate

    def round(self, states):
        """The yardstick's rate, what each state's is compared with, and each state's report."""
        base = self.base(self.images)
        progressive = self.base(self.progressive) if self.progressive else base
        bases = {state: progressive if state[0] in PROGRESSIVE else base for state in states}
        return base, bases, {state: call() for state, call in states.items()}


def table(header, rows):
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def stages(report):
    """CPU microseconds per image: read, what decode is made of, resample, hand-over."""
    parts = {"read": report["stages"]["read"], **report["decode_stages"], "resample": report["stages"]["pixel"],
             "hand-over": report["stages"]["serve"]}
    return {name: seconds / report["images"] * 1e6 for name, seconds in parts.items()}


def main():
    build, images, yardstick = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    seconds = int(sys.argv[5]) if len(sys.argv) > 5 else 5
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(build, images, yardstick, seconds, scratch)
        states = bench.all_states()
        bench.round(states)  # makes the checkpoints, warms the page cache
        results = [bench.round(states) for _ in range(rounds)]
    bases = [base for base, _, _ in results]
    print(f"{rounds} rounds of {seconds} s each; the yardstick made {statistics.median(bases):,.0f} images/s "
          f"({min(bases):,.0f} to {max(bases):,.0f}).\n")
    rows = []
    for state in states:
        ratios = [found[state]["images_per_s"] / of[state] for _, of, found in results]
        rates = [found[state]["images_per_s"] for _, _, found in results]
        fallbacks = sum(sum(found[state]["fallbacks"].values()) for _, _, found in results)
        rows.append([state[0], state[1], f"{statistics.median(rates):,.0f}",
                     f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", f"{fallbacks:.0f}"])
    table(["data", "kernels", "images/s", "of the yardstick", "fallbacks"], rows)
    kept = [state for state in states if state[1] == "chosen"]
    costs = {state: [stages(found[state]) for _, _, found in results] for state in kept}
    rows = []
    for name in costs[kept[0]][0]:
        row = [name]
        for state in kept:
            of = statistics.median(cost[name] for cost in costs[state])
            total = statistics.median(sum(cost.values()) for cost in costs[state])
            row.append(f"{of:.1f} ({of / total:.0%})")
        rows.append(row)
    rows.append(["sum"] + [f"{statistics.median(sum(cost.values()) for cost in costs[state]):.0f}" for state in kept])
    print("CPU time of the daemon per image, microseconds and share:\n")
    table(["stage"] + [state[0] for state in kept], rows)


main()
