"""The decoder against Pillow: same acceptance, same bytes, for every file of the given folders.

    jpeg_corpus.py DECODE_DUMP OUTCOMES.md FOLDER...

Files where the two differ on purpose stand in the table of OUTCOMES.md (first column, in backquotes); each file listed
there must really differ, and no other may. Run by hand with -v for what each side says. PENSTOCK_TEST_NIGHTLY=1: three times as many files
are damaged."""
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

PILLOW = "13.0.0"
SHARE = 1 if os.environ.get("PENSTOCK_TEST_NIGHTLY") == "1" else 3


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import PIL
    from PIL import Image
except ImportError:
    skip(f"Pillow {PILLOW} is not installed for {sys.executable}")
if PIL.__version__ != PILLOW:
    skip(f"Pillow {PILLOW} is the law here, and {sys.executable} has {PIL.__version__}")


def open_rgb(path):
    """The image as RGB, or the exception with which Pillow refuses it. Only what we claim to read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(path, formats=["JPEG", "PNG", "BMP", "PPM", "GIF", "WEBP", "TIFF"]) as image:
                return image.convert("RGB")
        except Exception as error:  # whatever Pillow raises is a refusal
            return error


def describe(image, region=None):
    """(width, height, crc) or None for a refusal."""
    if isinstance(image, Exception):
        return None
    box = image if region is None else image.crop(region)
    return image.width, image.height, zlib.crc32(box.tobytes())


def run_dump(dump, files, *options):
    """path -> (outcome, width, height, crc); the names of files may hold anything but a newline."""
    result = subprocess.run([dump, *options], input="".join(f"{f}\n" for f in files), text=True, stdout=subprocess.PIPE, check=True)
    found = {}
    for line in result.stdout.splitlines():
        if line.startswith("# "):
            found[path].append(line[2:])
            continue
        outcome, width, height, crc, path = line.split(" ", 4)
        found[path] = [outcome, int(width), int(height), int(crc, 16)]
    return found


def on_purpose(page):
    return set(re.findall(r"^\| `([^`]+)` \|", page.read_text(), re.M))


def agree(ours, theirs):
    return theirs is None if ours[0] != "ok" else theirs == tuple(ours[1:4])


def check_whole(dump, files, listed, verbose):
    """Full decodes; returns how many things are wrong, and the images that both accept."""
    ours = run_dump(dump, files, "-v")
    wrong, accepted, refused = 0, {}, 0
    for path in files:
        image = open_rgb(path)
        theirs = describe(image)
        mine = ours[str(path)]
        same = agree(mine, theirs)
        if same and theirs:
            accepted[path] = image.size
        refused += same and not theirs
        listed_here = path.name in listed
        if same == listed_here:
            wrong += 1
            print(f"WRONG {path.name}: {'listed as different, but equal' if same else ''} we {mine}; Pillow {theirs or repr(image)}")
        elif verbose and not (same and theirs):
            print(f"{'same' if same else 'listed'} {path.name}: we {mine}; Pillow {theirs or repr(image)}")
    print(f"{len(files)} files: {len(accepted)} equal, {refused} refused by both, "
          f"{len(files) - len(accepted) - refused} different, {wrong} of them not as listed")
    return wrong, accepted


def check_regions(dump, accepted, count):
    """Random regions without looking at the end of the file; what the whole file gives must be inside."""
    rng = random.Random(1)
    wrong = 0
    for path in rng.sample(sorted(accepted), min(count, len(accepted))):
        w, h = accepted[path]
        x0, y0 = rng.randrange(w), rng.randrange(h)
        region = x0, y0, rng.randint(x0 + 1, w), rng.randint(y0 + 1, h)
        theirs = describe(open_rgb(path), region)
        mine = run_dump(dump, [path], "--rows-only", "--region", ",".join(map(str, region)))[str(path)]
        if not agree(mine, theirs):
            wrong += 1
            print(f"WRONG {path.name} region {region}: we {mine}; Pillow {theirs}")
    print(f"{min(count, len(accepted))} regions, {wrong} wrong")
    return wrong


def make_damaged(folder, good, rng):
    """Each file cut at many places, each with random bytes changed, and each with trailing bytes."""
    for path in good:
        data = path.read_bytes()
        stem = path.stem[:40]
        cuts = {rng.randrange(len(data)) for _ in range(25)} | set(range(len(data) - 12, len(data)))
        cuts |= {c + d for c in range(65536, len(data), 65536) for d in (-1, 0, 1)}
        for cut in sorted(c for c in cuts if 0 <= c < len(data)):
            (folder / f"{stem}-cut-{cut}").write_bytes(data[:cut])
        for i in range(25):
            damaged = bytearray(data)
            start = rng.choice((0, data.find(b"\xff\xda")))
            for _ in range(rng.choice((1, 1, 3, 10))):
                at = rng.randrange(max(3, start), len(data) if start else min(len(data), 700))
                damaged[at] = rng.choice((damaged[at] ^ 1 << rng.randrange(8), rng.randrange(256), 0xFF, 0xD9))
            (folder / f"{stem}-damaged-{i}").write_bytes(damaged)
        for i, tail in enumerate((b"tail", data, data[2:], b"\xff\xda\0\2", b"\0" * 70000 + data)):
            (folder / f"{stem}-trailing-{i}").write_bytes(data + tail)
            (folder / f"{stem}-trailing-no-end-{i}").write_bytes(data.removesuffix(b"\xff\xd9") + tail)


def check_damaged(dump, accepted, verbose):
    """How many were made, and are wrong. Smoothing, which versions of libjpeg-turbo do differently, shows where progressive files lose scans:
    not those."""
    rng = random.Random(2)
    good = [f for f in sorted(accepted) if 0 < f.stat().st_size < 150000 and b"\xff\xc2" not in f.read_bytes()]
    large = [f for f in sorted(accepted) if 60000 < f.stat().st_size < 140000 and f in good]
    chosen = rng.sample(good, min(42 // SHARE, len(good))) + rng.sample(large, min(12 // SHARE, len(large)))
    with tempfile.TemporaryDirectory(prefix="penstock-jpeg-") as name:
        make_damaged(Path(name), chosen, rng)
        made = sorted(Path(name).iterdir())
        wrong, _ = check_whole(dump, made, set(), verbose)
    return len(made), wrong


def main():
    verbose = "-v" in sys.argv
    dump, page, *folders = [a for a in sys.argv[1:] if a != "-v"]
    files = [f for folder in folders for f in sorted(Path(folder).rglob("*")) if f.is_file()]
    if not files:
        skip(f"no files in {', '.join(folders)}")
    wrong, accepted = check_whole(dump, files, on_purpose(Path(page)), verbose)
    wrong += check_regions(dump, accepted, 200)
    damaged, wrong_damaged = check_damaged(dump, accepted, False)
    wrong += wrong_damaged
    if SHARE == 1 and not wrong:
        print(f"promise: {len(files)} files and {damaged} made of them, none decided or decoded otherwise than listed")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
