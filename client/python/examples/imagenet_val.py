#!/usr/bin/env python3
"""Sorts ImageNet's validation images into class folders of links, or into WebDataset tars.

ILSVRC2012_img_val.tar unpacks into one flat folder of 50,000 files. Another file has their classes:

    # Kaggle's file: ImageId,PredictionString
    imagenet_val.py VAL OUT --labels LOC_val_solution.csv
    # the devkit's two files
    imagenet_val.py VAL OUT --labels ILSVRC2012_validation_ground_truth.txt --synsets meta.mat
    # OUT/val-000000.tar ... instead of folders
    imagenet_val.py VAL OUT --labels FILE ... --tars

ImageFolder, torchvision's weights and penstock number the classes in the order of their names; the
devkit's numbers, 1 to 1000, have another order. Therefore the script needs meta.mat (read with
scipy), or a text file with the 1,000 names in the devkit's order. FILE may also contain names
instead of numbers (one per image, in order).

The script checks everything before it writes anything, and OUT appears only when it is complete.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import re
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

IMAGE = re.compile(r"(ILSVRC2012_val_\d{8})\.jpe?g", re.IGNORECASE)
SYNSET = re.compile(r"n\d{8}")


class Wrong(Exception):
    """A wrong input. The text says where, what was expected, and what to do."""


def read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise Wrong(f"{path} is not a text file (pass meta.mat with --synsets)") from None


def read_synsets(path: Path) -> list[str]:
    """The names of the classes. The name of the devkit's number k is at k - 1."""
    if path.suffix == ".mat":
        names = read_meta(path)
    else:
        names = [line.split()[0] for line in read_lines(path) if line.strip()]
    for number, name in enumerate(names, 1):
        if not SYNSET.fullmatch(name):
            raise Wrong(f"{path}: class {number} is '{name}': expected a synset like n01440764")
    if len(set(names)) != len(names):
        raise Wrong(f"{path}: {len(names) - len(set(names))} synsets appear twice")
    return names


def read_meta(path: Path) -> list[str]:
    try:
        from scipy.io import loadmat
    except ImportError:
        raise Wrong(f"{path}: reading it needs scipy: run `pip install scipy`, or pass --synsets a text file with its "
                    "synsets, one per line, in the order of ILSVRC2012_ID") from None
    try:
        rows = loadmat(str(path), squeeze_me=True)["synsets"]
        # Only leaves are classes; rows with children are groups of classes.
        leaves = sorted((int(row["ILSVRC2012_ID"]), str(row["WNID"])) for row in rows if int(row["num_children"]) == 0)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise Wrong(f"{path} is not the devkit's meta.mat: {error}") from None
    if [number for number, _ in leaves] != list(range(1, len(leaves) + 1)):
        raise Wrong(f"{path}: expected the leaves' ILSVRC2012_ID to be 1 to {len(leaves)}")
    return [name for _, name in leaves]


def read_kaggle(path: Path, lines: list[str]) -> dict[str, str]:
    """`ILSVRC2012_val_00048981,n03995372 85 1 499 272 ...`: the first word is the class, the rest
    are boxes."""
    labels: dict[str, str] = {}
    for number, row in enumerate(csv.reader(lines), 1):
        if number == 1 or not row:
            continue
        name = row[1].split()[0] if len(row) > 1 and row[1].split() else ""
        if not SYNSET.fullmatch(name):
            raise Wrong(f"{path}, line {number}: '{name}' is not a synset: expected ImageId,nXXXXXXXX ...")
        if row[0] in labels:
            raise Wrong(f"{path}, line {number}: {row[0]} already has a label")
        labels[row[0]] = name
    return labels


def read_ordered(path: Path, lines: list[str], synsets: list[str] | None) -> dict[str, str]:
    """Reads a line for each image, in order: a name, or the devkit's number."""
    labels: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name = line.strip()
        if re.fullmatch(r"\d+", name):
            if synsets is None:
                raise Wrong(f"{path} has the devkit's numbers: pass --synsets meta.mat too (the devkit has it in the "
                            "same folder)")
            if not 1 <= int(name) <= len(synsets):
                raise Wrong(f"{path}, line {number}: there is no class {name}: --synsets has 1 to {len(synsets)}")
            name = synsets[int(name) - 1]
        if not SYNSET.fullmatch(name):
            raise Wrong(f"{path}, line {number}: '{name}' is neither a number nor a synset like n01440764")
        labels[f"ILSVRC2012_val_{number:08d}"] = name
    return labels


def read_labels(path: Path, synsets: Path | None) -> dict[str, str]:
    lines = read_lines(path)
    if lines and lines[0].replace(" ", "").lower() == "imageid,predictionstring":
        return read_kaggle(path, lines)
    return read_ordered(path, lines, read_synsets(synsets) if synsets else None)


def find_images(folder: Path) -> dict[str, Path]:
    images: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        match = IMAGE.fullmatch(path.name)
        if match and match[1] in images:
            raise Wrong(f"{folder}: {path.name} and {images[match[1]].name} are the same image")
        if match:
            images[match[1]] = path.resolve()
    if not images:
        raise Wrong(f"{folder} has no ILSVRC2012_val_*.JPEG: expected the folder into which ILSVRC2012_img_val.tar was "
                    "unpacked")
    return images


def some(names: set[str]) -> str:
    return ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def match(images: dict[str, Path], labels: dict[str, str], count: int) -> list[tuple[str, str, Path]]:
    """(class, image, file), in penstock's order of class folders."""
    unlabeled, missing = images.keys() - labels.keys(), labels.keys() - images.keys()
    if unlabeled:
        raise Wrong(f"{len(unlabeled)} images have no label: {some(unlabeled)}")
    if missing:
        raise Wrong(f"{len(missing)} images that have a label are missing: {some(missing)}; unpack the whole tar file")
    if len(images) != count:
        raise Wrong(f"found {len(images)} images and labels: expected {count} (--count changes that)")
    return sorted((labels[name], name, path) for name, path in images.items())


def write_folders(out: Path, rows: list[tuple[str, str, Path]]) -> None:
    for synset, name, path in rows:
        (out / synset).mkdir(exist_ok=True)
        (out / synset / f"{name}.JPEG").symlink_to(path)


def write_tars(out: Path, rows: list[tuple[str, str, Path]], per_shard: int) -> None:
    number = {synset: index for index, synset in enumerate(sorted({synset for synset, _, _ in rows}))}
    for first in range(0, len(rows), per_shard):
        with tarfile.open(out / f"val-{first // per_shard:06d}.tar", "w") as tar:
            for synset, name, path in rows[first : first + per_shard]:
                add(tar, f"{synset}/{name}.jpg", path.read_bytes())
                add(tar, f"{synset}/{name}.cls", b"%d" % number[synset])


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def write(args: argparse.Namespace, rows: list[tuple[str, str, Path]]) -> None:
    """Writes a folder beside OUT and renames it to OUT when it is complete."""
    work = Path(tempfile.mkdtemp(prefix=f".{args.out.name}.", dir=args.out.parent))
    try:
        if args.tars:
            write_tars(work, rows, args.per_shard)
        else:
            write_folders(work, rows)
        work.chmod(0o755)
        os.rename(work, args.out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def number(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': expected a number of 1 or more")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("val", type=Path, help="the flat folder of ILSVRC2012_val_*.JPEG")
    parser.add_argument("out", type=Path, help="the folder to create")
    parser.add_argument("--labels", type=Path, required=True,
                        help="LOC_val_solution.csv or ILSVRC2012_validation_ground_truth.txt")
    parser.add_argument("--synsets", type=Path, help="the devkit's meta.mat, or its synsets as text in that order")
    parser.add_argument("--tars", action="store_true", help="WebDataset tars (copies), not folders of symbolic links")
    parser.add_argument("--per-shard", type=number, default=5000, help="images in a tar (default 5000)")
    parser.add_argument("--count", type=number, default=50000, help="how many images there must be (default 50000)")
    args = parser.parse_args()
    try:
        if args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
            raise Wrong(f"{args.out} already exists: choose another folder, or remove it")
        labels = read_labels(args.labels, args.synsets)
        rows = match(find_images(args.val), labels, args.count)
        write(args, rows)
    except (Wrong, OSError) as error:
        print(f"imagenet_val: {error}", file=sys.stderr)
        return 1
    print(f"{len(rows)} images in {len({row[0] for row in rows})} classes: {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
