"""The small datasets of the golden tests, painted by make_dataset, and files of numbers and labels beside them."""
import ast
import hashlib
import json
import os
import platform
import struct
import subprocess

from golden import UPDATE, harness, read

CLASSES, PER_CLASS = 3, 8  # of photos and of tars; `more` has four of each


def npy(path, values, kind):
    """A NumPy file of one dimension, without NumPy."""
    code, letter = {"int64": ("<i8", "q"), "float64": ("<f8", "d")}[kind]
    head = f"{{'descr': '{code}', 'fortran_order': False, 'shape': ({len(values)},), }}"
    assert ast.literal_eval(head)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{letter}", *values))


def make(home):
    """photos, more (folders), tars (of the same images as photos), and lists, below `home`."""
    sizes = dict(classes=CLASSES, min_side=40, max_side=90)
    harness.make_dataset(home / "photos", PER_CLASS, seed=7, **sizes)
    harness.make_dataset(home / "tars", PER_CLASS, seed=7, tars=True, per_shard=10, **sizes)
    harness.make_dataset(home / "more", 4, seed=9, **sizes)
    npy(home / "indices.npy", [3, 1, 4, 1, 5, 9, 2, 6, 23, 0], "int64")
    npy(home / "weights.npy", [1.0 + (i % 5) for i in range(CLASSES * PER_CLASS)], "float64")
    photos = sorted((home / "photos").rglob("*.jpg"))
    (home / "labels.csv").write_text("path,label\n" + "".join(f"{p.relative_to(home / 'photos')},{i % 4}\n" for i, p in enumerate(photos)))
    (home / "tags.csv").write_text("path,labels\n" + "".join(
        f"{p.relative_to(home / 'photos')},{'sun rain'.split()[i % 2]};{'sea land'.split()[i // 2 % 2]}\n" for i, p in enumerate(photos)))


def digest(home):
    """A hash of the images' files: what all other hashes rest on."""
    found = hashlib.sha256()
    for path in sorted(p for name in ("photos", "more", "tars") for p in (home / name).rglob("*") if p.suffix in (".jpg", ".tar")):
        found.update(f"{path.relative_to(home)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return found.hexdigest()


def libraries(home):
    """What the files' bytes may depend on besides make_dataset."""
    told = json.loads(run(home, harness.tool("penstock"), "check", home / "photos", "--index-only", "--json").stdout)
    return " ".join([told["machine"]["libjpeg"], *platform.libc_ver(), platform.machine()])


def check(home):
    """Skips the test where other libraries make other files than those that the hashes were taken of."""
    if UPDATE or digest(home) == read("streams")["dataset"]:
        return
    here, there = libraries(home), read("streams")["libraries"]
    assert here != there, f"make_dataset writes other JPEG files than it did with {there}"
    raise harness.Skip(f"make_dataset writes other JPEG files with {here} than with {there}: no hash would fit")


def run(home, *command):
    """Runs a program to its end; its indexes are kept below `home`."""
    return subprocess.run([str(word) for word in command], env={**os.environ, "XDG_CACHE_HOME": str(home / "cache")}, capture_output=True,
                          text=True, timeout=harness.LIMIT, stdin=subprocess.DEVNULL)
