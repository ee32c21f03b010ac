"""A folder with names that are hard to order, and torchvision's rules for the order of its images,
written from the rules: test_folder_order.py compares penstock with them, torch_folder_order.py with
torchvision."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

# IMG_EXTENSIONS of torchvision/datasets/folder.py
EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

# Names of classes, directories and files, without extensions. Bytes, because some are not UTF-8.
NAMES = [b"tiger", b"tiger cat", b"tiger-x", b"tiger0", b"tiger.d", b"Tiger", b"img", b"img-1", b"img.1", b"img 1", b"img0", b"img_1",
         b"1", b"2", b"10", b"01", b"a", b"a b", b"a-b", b"a,b", b"a0", b"A", b"~", b"!", b" ", b"  x", b"a'b", b'a"b', b"a\nb", b"a\\b", b"{a,b}", b"*",
         "é".encode(), "e\u0301".encode(), "ß".encode(), "猫".encode(), "\ud7ff".encode(), "\ue000".encode(), "\uffff".encode(), "🐈".encode(),
         b"\x80", b"\xff", b"\xe2\x82", b"\xe2\x82A", "€".encode(), b"\xed\xa0\x80", b"\xf0\x9f\x90", b"a\xff", b"a\xe2\x82", "a€".encode(), "a\ue000".encode()]


def make(root: Path, image: bytes, seed: int, flat: bool = False) -> None:
    """Class folders with images in and below them, links to files and to folders, links to nothing,
    and files that are left out."""
    draw = random.Random(seed)
    base = os.fsencode(root)
    os.makedirs(base)
    outside = base + b"-outside"
    os.makedirs(outside + b"/below-b")
    os.makedirs(outside + b"/below/a")
    for place in (b"/x.jpg", b"/below/y.png", b"/below-b/y.png", b"/below/a/z.jpg"):
        with open(outside + place, "wb") as file:
            file.write(image)

    def fill(path: bytes, depth: int) -> None:
        for name in NAMES if flat else draw.sample(NAMES, 6):
            for extension in draw.sample([b".jpg", b".JPG", b".jpeg", b".png", b".Png", b".webp", b".TIF", b".bmp", b".gif", b".txt", b""], 2):
                with open(path + b"/" + name + extension, "wb") as file:
                    file.write(image)
        os.symlink(outside + b"/x.jpg", path + b"/link to.jpg")
        os.symlink(b"nowhere", path + b"/to nothing.jpg")
        if depth < 3 and not flat:
            os.symlink(outside + draw.choice([b"", b"/below"]), path + b"/tiger link")
            for name in draw.sample([n for n in NAMES if b"tiger" in n or b"a" in n], 3):
                if not os.path.lexists(path + b"/" + name):
                    os.mkdir(path + b"/" + name)
                    fill(path + b"/" + name, depth + 1)

    if flat:
        fill(base, 0)
        return
    for name in draw.sample(NAMES, 12):
        os.mkdir(base + b"/" + name)
        fill(base + b"/" + name, 1)
    os.mkdir(base + b"/linked")
    os.rmdir(base + b"/linked")
    os.symlink(outside, base + b"/linked")


def natural_key(name: str) -> "list[int | str]":
    """timm.data.readers.class_map's, as timm 1.0 has it."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name.lower())]


def walk(top: str) -> "list[str]":
    return [os.path.join(folder, name) for folder, _, names in sorted(os.walk(top, followlinks=True)) for name in sorted(names)
            if name.lower().endswith(EXTENSIONS)]


def image_folder(root: Path, natural: bool = False) -> "list[tuple[str, int]]":
    """(path, label) of each sample, as torchvision.datasets.ImageFolder finds them; or with the
    classes numbered as timm does."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    if natural:
        classes.sort(key=natural_key)  # stable: equal keys stay in ImageFolder's order
    return [(path, label) for label, name in enumerate(classes) for path in walk(os.path.join(root, name))]
