"""Folders of images for the programs that measure: the caller's images in other forms. Each folder is flat, as a yardstick reads it.

The images themselves stay where they are. What is made of them is in a temporary folder, which the caller removes."""
import os
import shutil
import subprocess
from pathlib import Path

SUFFIXES = (".jpg", ".jpeg")
LARGE = (4000, 3000)  # 12 megapixels
LARGE_FILES, LARGE_COPIES = 8, 16
LARGE_NOISE = 8  # standard deviation, in levels of 255
PNG_FILES = 100


def jpegs(images):
    """Every JPEG below a folder, in order."""
    return sorted(path for path in Path(images).rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


def pillow():
    """Pillow's Image, or None."""
    try:
        from PIL import Image  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    return Image


def progressive(images, folder):
    """Progressive forms by jpegtran; those that it refuses are left out. None without jpegtran."""
    if not shutil.which("jpegtran"):
        return None
    os.mkdir(folder)
    for number, path in enumerate(jpegs(images)):
        to = os.path.join(folder, f"{number:06}.jpg")
        with open(to, "wb") as out:
            done = subprocess.run(["jpegtran", "-copy", "none", "-progressive", path], stdout=out, stderr=subprocess.DEVNULL, check=False)
        if done.returncode or not os.path.getsize(to):
            os.unlink(to)
    return folder


def copies(files, count, folder):
    """Each file so many times: one copy, and hard links to it, so that the page cache has it once."""
    os.mkdir(folder)
    for number, path in enumerate(files):
        first = os.path.join(folder, f"{number:06}-{0:03}{Path(path).suffix}")
        shutil.copyfile(path, first)
        for copy in range(1, count):
            os.link(first, os.path.join(folder, f"{number:06}-{copy:03}{Path(path).suffix}"))
    return folder


def large(images, folder, noise=0):
    """12-megapixel JPEGs: some photographs, evenly spread, enlarged by Pillow, quality 90, 4:2:0, without restart markers. Enlarged ones are
    smooth (1 MB a file); with noise, as a camera's sensor adds, they have 3.4 MB, as a camera's files. Two folders: with each file
    once, for the yardstick, and with each many times, so that an epoch has some batches. None without Pillow."""
    image = pillow()
    if not image:
        return None
    every = jpegs(images)
    chosen = every[::max(1, len(every) // LARGE_FILES)][:LARGE_FILES]
    made = folder + "-made"
    os.mkdir(made)
    for number, path in enumerate(chosen):
        with image.open(path) as opened:
            enlarged = opened.convert("RGB").resize(LARGE, image.Resampling.LANCZOS)
        if noise:
            from PIL import ImageChops  # pylint: disable=import-outside-toplevel

            grains = image.merge("RGB", [image.effect_noise(LARGE, noise) for _ in range(3)])
            enlarged = ImageChops.add(enlarged, grains, 1, -128)
        enlarged.save(os.path.join(made, f"{number}.jpg"), quality=90)
    copies([os.path.join(made, f"{number}.jpg") for number in range(len(chosen))], LARGE_COPIES, folder)
    return made, folder


def png(images, folder):
    """The first images as PNG by Pillow, compression level 6. None without Pillow."""
    image = pillow()
    if not image:
        return None
    os.mkdir(folder)
    for path in jpegs(images)[:PNG_FILES]:
        with image.open(path) as opened:
            opened.convert("RGB").save(os.path.join(folder, f"{path.stem}.png"), compress_level=6)
    return folder
