#!/usr/bin/env python3
"""Decoding of image types other than JPEG, per core, beside Pillow.

    tests/bench/image_types.py BUILD IMAGES [--rounds 5] [--count 100]

Pillow writes the first COUNT JPEGs of the folder IMAGES as each type. In each round one core decodes all of them in full, in
penstock (`penstock check`, one thread) and in Pillow (`Image.open(...).convert("RGB")`, one process), in alternating order, warm.
The figures are medians of the rounds; the bar is Pillow's rate. Prints a table in Markdown; the exit status is 1 if the bar is
missed."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TYPES = {
    "WebP, quality 80": ("webp", {"quality": 80}),
    "WebP, lossless": ("webp", {"lossless": True, "method": 1}),
    "TIFF, uncompressed": ("tiff", {}),
    "TIFF, LZW": ("tiff", {"compression": "tiff_lzw"}),
    "TIFF, Deflate": ("tiff", {"compression": "tiff_adobe_deflate"}),
    "TIFF, JPEG": ("tiff", {"compression": "jpeg"}),
    "PNG": ("png", {"compress_level": 6}),
}


def write(images, count, folder, kind):
    from PIL import Image  # pylint: disable=import-outside-toplevel

    extension, options = TYPES[kind]
    folder.mkdir()
    for path in sorted(Path(images).rglob("*.[jJ][pP]*"))[:count]:
        with Image.open(path) as image:
            image.convert("RGB").save(folder / f"{path.stem}.{extension}", **options)


def penstock(build, folder, home):
    command = [Path(build) / "bin/penstock", "check", "--json", "--threads", "1", "--labels", "none", folder]
    done = subprocess.run(command, check=True, env={**os.environ, "XDG_CACHE_HOME": str(home)}, stdout=subprocess.PIPE, text=True)
    said = json.loads(done.stdout)
    return said["decoded"] / said["seconds"]


def pillow(folder):
    """In a process of its own, without what the import costs."""
    program = ("import sys, time\nfrom pathlib import Path\nfrom PIL import Image\nfiles = sorted(Path(sys.argv[1]).iterdir())\n"
               "start = time.perf_counter()\nfor file in files:\n    with Image.open(file) as image:\n        image.convert('RGB')\n"
               "print(len(files) / (time.perf_counter() - start))\n")
    return float(subprocess.run([sys.executable, "-c", program, folder], check=True, stdout=subprocess.PIPE, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    missed = 0
    print("| type | penstock, images/s | Pillow, images/s | ratio | |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="penstock-types-") as scratch:
        for number, kind in enumerate(TYPES):
            folder, home = Path(scratch) / str(number), Path(scratch) / "home"
            write(options.images, options.count, folder, kind)
            ours, theirs = [], []
            for turn in range(options.rounds + 1):  # the first one makes the index and warms the files
                for one in (0, 1) if turn % 2 else (1, 0):
                    rate = penstock(options.build, folder, home) if one else pillow(folder)
                    if turn:
                        (ours if one else theirs).append(rate)
            ratio = statistics.median(a / b for a, b in zip(ours, theirs))
            missed += ratio < 1
            print(f"| {kind} | {statistics.median(ours):.0f} | {statistics.median(theirs):.0f} | {ratio:.2f} "
                  f"| {'holds' if ratio >= 1 else 'MISSED'} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
