#!/usr/bin/env python3
"""What augmentation costs: images/s of a recipe as a share of those of the plain training recipe.

    tests/bench/transforms.py BUILD IMAGES [--rounds 7] [--seconds 4] [--threads 2] [--only NAME ...] [--before BUILD] [--json FILE]

Each round runs `penstock bench` once with RandomResizedCrop and RandomHorizontalFlip and then with each recipe; a recipe's ratio is taken against the
mean of the plain runs before and behind it. --before names the build of an earlier release: its plain recipe is measured among them, as "before", so
that the ratio says what the plain recipe costs now. Prints a table in Markdown: medians, least and most, and the floor where there is one."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PLAIN = [{"RandomResizedCrop": {"size": 224}}, "RandomHorizontalFlip"]
RECIPES = {  # name: what follows the plain list, the floor or None
    "RandAugment (2, 9)": (["RandAugment"], 0.70),
    "TrivialAugmentWide": (["TrivialAugmentWide"], 0.75),
    "ColorJitter (0.4, 0.4, 0.4, 0.1)": (
        [{"ColorJitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}}], 0.75),
    "AutoAugment (imagenet)": (["AutoAugment"], None),
    "AugMix": (["AugMix"], None),
    "ThreeAugment, ColorJitter 0.3": (
        ["ThreeAugment", {"ColorJitter": {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3}}], None),
    "GaussianBlur (23)": ([{"GaussianBlur": {"kernel_size": 23}}], None),
    "RandomErasing (p 0.25)": ([{"RandomErasing": {"p": 0.25}}], None),
    "TrivialAugmentWide, RandomErasing (0.1)": (["TrivialAugmentWide", {"RandomErasing": {"p": 0.1}}], None),
}


def bench(build, images, transforms, options):
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as home:
        environment = {**os.environ, "XDG_RUNTIME_DIR": home, "XDG_STATE_HOME": home, "TMPDIR": home}
        command = [Path(build) / "bin" / "penstock", "bench", images, "--seconds", str(options.seconds), "--threads", str(options.threads), "--json"]
        if transforms:
            command += ["--transforms", json.dumps(transforms)]
        report = json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, env=environment).stdout)
    return report["images_per_s"], report["cpu_s"] / report["images"]


def measure(options):
    chosen = list(RECIPES) if options.only is None else options.only
    rates, costs, plain_rates = {name: [] for name in chosen}, {name: [] for name in chosen}, []
    if options.before:
        rates["before"], costs["before"] = [], []
    for turn in range(options.rounds):
        last = bench(options.build, options.images, PLAIN, options)
        names = list(rates)
        for name in names if turn % 2 == 0 else reversed(names):
            build, transforms = (options.before, None) if name == "before" else (options.build, PLAIN + RECIPES[name][0])
            rate, cost = bench(build, options.images, transforms, options)
            then = bench(options.build, options.images, PLAIN, options)
            plain_rates.append(then[0])
            if name == "before":  # how the plain recipe is now, as a share of how it was
                rates[name].append((last[0] + then[0]) / 2 / rate)
                costs[name].append((last[1] + then[1]) / 2 / cost)
            else:
                rates[name].append(2 * rate / (last[0] + then[0]))
                costs[name].append(2 * cost / (last[1] + then[1]))
            last = then
        print(f"round {turn + 1} of {options.rounds}", file=sys.stderr)
    return rates, costs, plain_rates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("images")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=list(RECIPES))
    parser.add_argument("--before")
    parser.add_argument("--json")
    options = parser.parse_args()
    rates, costs, plain = measure(options)
    print(f"plain: {statistics.median(plain):.0f} images/s (median of {len(plain)}), {options.threads} threads\n")
    print("| recipe | images/s, of plain | least to most | CPU per image, of plain | floor | |\n|---|---|---|---|---|---|")
    missed = False
    for name, ratios in rates.items():
        floor = RECIPES[name][1] if name in RECIPES else None
        middle = statistics.median(ratios)
        verdict = "" if floor is None else "holds" if middle >= floor else "MISSED"
        missed |= verdict == "MISSED"
        label = "plain, of what it was before" if name == "before" else name
        print(f"| {label} | {middle:.3f} | {min(ratios):.3f} to {max(ratios):.3f} | {statistics.median(costs[name]):.3f} | "
              f"{'' if floor is None else f'>= {floor:.2f}'} | {verdict} |")
    if options.json:
        Path(options.json).write_text(json.dumps({"rates": rates, "cpu": costs, "plain": plain}, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
