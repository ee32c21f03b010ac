#!/usr/bin/env python3
"""Writes the fixtures of ZIP with Python's zipfile and Info-ZIP, and what zipfile and the order of ImageFolder say about them.

    make.py      by hand, with Pillow, numpy and the program zip

The order and the classes are those of torchvision's ImageFolder on the unpacked archive (find_classes, make_dataset), computed here
from the names; damaged archives are made by changing bytes of good ones.
"""

import io
import json
import os
import shutil
import struct
import subprocess
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
EXTENSIONS = (".jpg", ".jpeg", ".png")
STAMP = (2024, 1, 1, 0, 0, 0)


def picture(seed, kind="JPEG", size=(16, 12)):
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1] // 4, size[0] // 4, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).resize(size).save(out, kind)
    return out.getvalue()


def entry(name, method=zipfile.ZIP_STORED):
    info = zipfile.ZipInfo(name, STAMP)
    info.compress_type = method
    info.external_attr = 0o644 << 16
    return info


def write(name, members, method=zipfile.ZIP_STORED, force=False, comment=b""):
    """`members`: pairs of a name and bytes (None: a folder), in the order of the archive."""
    with zipfile.ZipFile(HERE / name, "w") as archive:
        archive.comment = comment
        for member, data in members:
            if data is None:
                archive.writestr(entry(member + "/"), b"")
                continue
            with archive.open(entry(member, method), "w", force_zip64=force) as out:
                out.write(data)


def images(*names):
    """Small ones: a JPEG for .jpeg, else a PNG, whatever the ending says, since the content decides."""
    return [(name, picture(zlib.crc32(name.encode()), "JPEG" if name.endswith("jpeg") else "PNG", (8, 4))) for name in names]


def hidden(name):
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def read(name, root="", labelled=True, names=None):
    """What zipfile reads, in ImageFolder's order, with the classes below `root`. `names`: how penstock decodes a name."""
    archive = zipfile.ZipFile(HERE / name)
    found = {}
    for info in archive.infolist():
        shown = (names or {}).get(info.filename, info.filename)
        if not info.is_dir() and shown.lower().endswith(EXTENSIONS) and not hidden(shown):
            found[shown] = archive.read(info)
    parts = {shown: shown[len(root):] for shown in found}
    classes = sorted({part.split("/")[0] for part in parts.values() if "/" in part})

    def place(shown):
        part = parts[shown]
        folder, _, file = shown.rpartition("/")
        return (part.split("/")[0] if "/" in part else "", folder, file)

    samples = []
    for shown in sorted(found, key=place):
        data = found[shown]
        label = classes.index(parts[shown].split("/")[0]) if "/" in parts[shown] and labelled else None
        samples.append({"key": shown.rpartition(".")[0], "name": shown, "size": len(data), "crc32": zlib.crc32(data), "label": label})
    return {"classes": classes if classes and labelled else None, "samples": samples}


def change(name, source, at, data):
    """A copy of an archive with other bytes at `at` (negative: from the end)."""
    whole = bytearray((HERE / source).read_bytes())
    at = at if at >= 0 else len(whole) + at
    whole[at:at + len(data)] = data
    (HERE / name).write_bytes(whole)


def entries(name):
    """[(offset of the entry in the directory, offset of the local header, name)]"""
    data = (HERE / name).read_bytes()
    end = data.rindex(b"PK\5\6")
    at, found = struct.unpack("<I", data[end + 16:end + 20])[0], []
    while data[at:at + 4] == b"PK\1\2":
        sizes = struct.unpack("<HHH", data[at + 28:at + 34])
        found.append((at, struct.unpack("<I", data[at + 42:at + 46])[0], data[at + 46:at + 46 + sizes[0]].decode()))
        at += 46 + sum(sizes)
    return found


def infozip(name, arguments, members):
    """Info-ZIP's program, which is what users have."""
    with tempfile.TemporaryDirectory() as scratch:
        for member, data in members:
            path = Path(scratch) / "in" / member
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (1700000000, 1700000000))
        out = Path(scratch) / "out.zip"
        subprocess.run(["zip", "-q", "-X", *arguments, str(out), "."], cwd=Path(scratch) / "in", check=True)
        shutil.copy(f"{scratch}/out.zip", HERE / name)


def rows(expected):
    """JSON with one line for each sample."""
    lines = []
    for name, want in expected.items():
        text = json.dumps(want, ensure_ascii=False)
        lines.append(f"{json.dumps(name)}: " + text.replace('[{"key"', '[\n  {"key"').replace('}, {"key"', '},\n  {"key"'))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    for old in HERE.glob("*.zip"):
        old.unlink()
    expected = {}
    folders = images("b/2.jpg", "a/1.jpeg", "a-b/x.png", "a/c/1.jpg", "a/a-b/2.jpg", "b/1.JPG", "b/Z.jpg")
    write("classes.zip", folders)
    write("deflated.zip", folders, zipfile.ZIP_DEFLATED)
    write("zip64.zip", folders, force=True, comment=b"a comment")
    for name in ("classes.zip", "deflated.zip", "zip64.zip"):
        expected[name] = read(name)
    expected["classes.zip # no labels"] = {**read("classes.zip", labelled=False), "options": {"labels": "none"}}
    infozip("info.zip", ["-0", "-r"], folders)
    infozip("info9.zip", ["-9", "-r"], folders)
    for name in ("info.zip", "info9.zip"):
        expected[name] = read(name)
    # Bytes in front of the archive and after it, as self-extracting programs and mail have them.
    write("prefix.zip", images("a/1.jpg", "b/1.jpg"), zipfile.ZIP_DEFLATED)
    good = (HERE / "prefix.zip").read_bytes()
    (HERE / "prefix.zip").write_bytes(b"#!/bin/sh\nexit\n" * 10 + good + b"more")
    expected["prefix.zip"] = read("prefix.zip")
    # The ending does not matter.
    (HERE / "archive.bin").write_bytes((HERE / "prefix.zip").read_bytes()[150:])
    expected["archive.bin"] = read("prefix.zip")

    # One folder above the class folders; files that are not images; macOS's own.
    write("train.zip", [("train", None), *images("train/n2/1.jpg", "train/n1/1.jpg", "train/n1/.x.jpg"), ("LICENSE", b"text"),
                        ("__MACOSX/train/n1/._1.jpg", b"fork"), ("train/README.md", b"text"), ("train/n1/notes.txt", b"text")])
    expected["train.zip"] = read("train.zip", "train/")
    expected["train.zip # no labels"] = {**read("train.zip", "train/", labelled=False), "options": {"labels": "none"}}
    write("deep.zip", images("archive/train/n2/1.jpg", "archive/train/n1/x/1.jpg"))
    expected["deep.zip"] = read("deep.zip", "archive/train/")
    # A class of its own beside a folder in it: that folder is not the root.
    write("mixed-depth.zip", images("all/1.jpg", "all/x/2.jpg"))
    expected["mixed-depth.zip"] = read("mixed-depth.zip")
    write("flat.zip", images("2.jpg", "1.png", "a.JPEG"))
    expected["flat.zip"] = read("flat.zip")
    expected["{train,train}.zip"] = {"classes": expected["train.zip"]["classes"], "samples": expected["train.zip"]["samples"] * 2}

    # Names: marked as UTF-8; UTF-8 without the mark, as unzip takes it; code page 437.
    write("names.zip", images("käse/1.jpg", "käse/😀.jpg", "日本/1.jpg"))
    expected["names.zip"] = read("names.zip")
    data = bytearray((HERE / "names.zip").read_bytes())
    for entry_at, header, _ in entries("names.zip"):
        data[entry_at + 9] &= ~8
        data[header + 7] &= ~8
    (HERE / "unmarked.zip").write_bytes(data)
    back = {info.filename: info.filename.encode("cp437").decode() for info in zipfile.ZipFile(HERE / "unmarked.zip").infolist()}
    expected["unmarked.zip"] = read("unmarked.zip", names=back)
    write("cp437.zip", images("a-b/x.png", "b/1.jpg"))
    data = (HERE / "cp437.zip").read_bytes().replace(b"a-b/x.png", b"\x84-b/\xe1.png")
    (HERE / "cp437.zip").write_bytes(data)
    expected["cp437.zip"] = read("cp437.zip")

    # Refused.
    def refuse(name, fault):
        expected[name] = {"fault": fault}

    write("empty.zip", [])
    refuse("empty.zip", "no images among 0 files")
    write("texts.zip", [("a/x.txt", b"text"), ("b.csv", b"1")])
    refuse("texts.zip", "no images among 2 files")
    write("beside.zip", images("1.jpg", "a/1.jpg"))
    refuse("beside.zip", "holds both images (1.jpg) and folders of images (a/1.jpg)")
    write("lonely.zip", [("b", None), *images("a/1.jpg"), ("c/x.txt", b"text")])
    refuse("lonely.zip", "2 class folders without an image (b, c)")
    write("splits.zip", images("train/a/1.jpg", "val/a/1.jpg"))
    refuse("splits.zip", "holds folders of folders that are named like splits (train, val)")
    infozip("password.zip", ["-0", "-r", "-P", "secret"], images("a/1.jpg"))
    refuse("password.zip", "is encrypted: unpack the archive with its password (unzip -P PASSWORD)")
    for kind, method in (("bzip2", zipfile.ZIP_BZIP2), ("LZMA", zipfile.ZIP_LZMA)):
        write(f"{kind}.zip", images("a/1.jpg"), method)
        refuse(f"{kind}.zip", f"({kind}), but only stored and deflated members are read")
    change("split.zip", "flat.zip", -18, b"\1\0\1\0")
    refuse("split.zip", "is one part of several: join them (zip -s 0 IN.zip --out OUT.zip)")
    for name, member in (("dots.zip", "a/../../1.jpg"), ("absolute.zip", "/a/1.jpg"), ("dot.zip", "a/./1.jpg")):
        write(name, [*images("a/0.jpg"), (member, picture(1))])
    refuse("dots.zip", 'has ".." as a part of its name')
    refuse("absolute.zip", "has an absolute name")
    refuse("dot.zip", 'has "." as a part of its name')
    write("twice.zip", images("a/1.jpg", "b/1.jpg"))
    data = (HERE / "twice.zip").read_bytes().replace(b"b/1.jpg", b"a/1.jpg")
    (HERE / "twice.zip").write_bytes(data)
    refuse("twice.zip", "member a/1.jpg is there twice")
    # The local header of the first member, and its entry, one after the other.
    small = images("b/2.jpg", "a/1.jpg", "c/1.jpg")
    write("small.zip", small, zipfile.ZIP_DEFLATED)
    write("stored-small.zip", small)
    expected["small.zip"] = read("small.zip")
    expected["stored-small.zip"] = read("stored-small.zip")
    places = entries("small.zip")
    entry_at, header, _ = places[0]
    change("other-name.zip", "small.zip", header + 30, b"c")
    refuse("other-name.zip", f"byte {header}: member b/2.jpg has another name in its own header")
    change("other-size.zip", "small.zip", entry_at + 24, b"\1\2")
    refuse("other-size.zip", "has another size or CRC in its own header than in the directory")
    change("other-method.zip", "small.zip", header + 8, b"\0")
    refuse("other-method.zip", "has another method of compression in its own header")
    change("no-header.zip", "small.zip", header, b"QK")
    refuse("no-header.zip", "has no header here")
    change("no-entry.zip", "small.zip", places[2][0], b"QK")
    refuse("no-entry.zip", f"byte {places[2][0]}: expected an entry of the ZIP's directory")
    change("count.zip", "small.zip", -12, b"\5\0")
    refuse("count.zip", "the directory of the ZIP ends after 3 members, but the end record says 5")
    change("stored.zip", "stored-small.zip", entries("stored-small.zip")[0][0] + 20, b"\1\1")
    refuse("stored.zip", "is stored as it is, but has 257 bytes in the file and")
    change("beyond.zip", "stored-small.zip", entries("stored-small.zip")[0][0] + 42, b"\xff\xff\xff\x7f")
    refuse("beyond.zip", "is said to begin at byte 2147483647, after the directory")
    good = (HERE / "small.zip").read_bytes()
    (HERE / "cut.zip").write_bytes(good[:-30])
    refuse("cut.zip", "expected the end record of a ZIP in the last")
    (HERE / "cut-front.zip").write_bytes(good[400:])
    refuse("cut-front.zip", "which is beyond this place")
    # Two entries with one member's data: the second directory entry names the first one's header.
    write("overlap.zip", [("a/1.jpg", b"x" * 300), ("a/2.jpg", b"y" * 300)])
    first, second = entries("overlap.zip")
    inner = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 0, 0, 33, zlib.crc32(b"x" * 100), 100, 100, 7, 0) + b"a/2.jpg" + b"x" * 100
    data = bytearray((HERE / "overlap.zip").read_bytes())
    at = first[1] + 30 + 7 + 50
    data[at:at + len(inner)] = inner
    data[second[0] + 16:second[0] + 28] = struct.pack("<III", zlib.crc32(b"x" * 100), 100, 100)
    data[second[0] + 42:second[0] + 46] = struct.pack("<I", at)
    (HERE / "overlap.zip").write_bytes(data)
    refuse("overlap.zip", "two members overlap here")
    # A bomb: a size that deflate cannot unpack to.
    data = bytearray((HERE / "small.zip").read_bytes())
    data[entry_at + 24:entry_at + 28] = struct.pack("<I", 100 << 20)
    data[header + 6] |= 8
    (HERE / "bomb.zip").write_bytes(data)
    refuse("bomb.zip", "which deflate cannot do")
    # Behind the directory: data that are damaged are found when they are read.
    change("damaged.zip", "small.zip", header + 30 + len("b/2.jpg") + 40, b"\xff\xff\xff\xff")
    refuse("damaged.zip", "b/2.jpg")
    (HERE / "expected.json").write_text(rows(expected), encoding="utf-8")


if __name__ == "__main__":
    main()
