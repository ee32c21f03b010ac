#!/usr/bin/env python3
"""Containers: what their reference readers found in the committed fixtures, penstock must find.

    run.py LIST NAME [--without LIBRARY]     LIST is the program container_list, NAME a folder beside this file

With --without, the build lacks LIBRARY: sources that need it must be refused with a sentence that says so.

NAME/expected.json was written by NAME/make.py (run by hand) from what the reference reader returned:

    {"FILE": {"classes": ["cat", ...] or null,
              "samples": [{"key": "a", "size": 700, "crc32": 123, "label": 0}, ...],
              "options": {"image_column": "x", "label_column": "y", "label_offset": -1, "labels": "none"}}}

FILE is what a user names, below NAME: a file, a folder, or a pattern with braces or stars. Text after " #" only tells entries of
the same source apart. `options`, a sample's `name` (where penstock's name for it is not the key), `label` (null: none; a list: a row) and
`type` (the type of the rows) may be missing. With "fault": TEXT in place of samples, opening must fail with a sentence that
contains TEXT. Fixtures NAME.xz are unpacked first. Keys that are not names are checked through the fingerprint, which covers them in order.

Standard library only.
"""

import json
import lzma
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MASK = (1 << 64) - 1
PRIME = (1 << 61) - 1
BASE = 0x0b5ad4eceda1ce2a
SEED = 0xcbf29ce484222325


def feed(value, data):
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & MASK
    return value


def mix(value):
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9 & MASK
    value = (value ^ value >> 27) * 0x94d049bb133111eb & MASK
    return value ^ value >> 31


def fingerprint(samples):
    """The fingerprint of samples whose labels are single classes: daemon/dataset/digest.h."""
    digest = 0
    for sample in samples:
        label = sample.get("label")
        value = feed(SEED, sample["key"].encode())
        value = feed(value, sample["size"].to_bytes(8, "little"))
        value = mix(feed(value, ((-1 if label is None else label) & MASK).to_bytes(8, "little"))) % PRIME
        digest = (digest * BASE + value) % PRIME
    return mix(feed(feed(SEED, digest.to_bytes(8, "little")), len(samples).to_bytes(8, "little")))


def listing(program, cache, folder, source, options):
    command = [program, cache]
    for key, value in options.items():
        command += [f"--{key.replace('_', '-')}", str(value)]
    return subprocess.run([*command, source], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def compare(source, expected, got):
    head, *samples = [json.loads(line) for line in got.splitlines()]
    assert head["classes"] == expected.get("classes"), f"{source}: classes {head['classes']}, expected {expected.get('classes')}"
    assert len(samples) == len(expected["samples"]), f"{source}: {len(samples)} samples, expected {len(expected['samples'])}"
    rows = False
    for number, (sample, want) in enumerate(zip(samples, expected["samples"])):
        rows |= isinstance(want.get("label"), list)
        wanted = {"name": want.get("name", want["key"]), "size": want["size"], "crc32": want["crc32"], "label": want.get("label")}
        assert sample == wanted, f"{source}: sample {number} is {sample}, expected {wanted}"
    if "type" in expected:
        assert head["type"] == expected["type"], f"{source}: labels of type {head['type']}, expected {expected['type']}"
    if not rows:
        assert head["fingerprint"] == fingerprint(expected["samples"]), f"{source}: the fingerprint is not that of these keys"
    return len(samples)


def main():
    program, name = str(Path(sys.argv[1]).resolve()), sys.argv[2]
    lacking = f"this penstock was built without {sys.argv[4]}" if sys.argv[3:4] == ["--without"] else None
    compared, lacked = 0, []
    here = Path(__file__).parent / name
    expected = json.loads((here / "expected.json").read_text(encoding="utf-8"))
    assert expected, f"{name}/expected.json is empty"
    with tempfile.TemporaryDirectory(prefix="penstock-containers-") as scratch:
        folder = Path(scratch) / "fixtures"
        shutil.copytree(here, folder)
        for packed in folder.rglob("*.xz"):
            packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        for entry, want in expected.items():
            source = entry.split(" #")[0]
            run = listing(program, f"{scratch}/cache", folder, source, want.get("options", {}))
            if lacking and run.returncode == 1 and lacking in run.stderr:
                lacked.append(entry)
                continue
            if "fault" in want:
                assert run.returncode == 1 and want["fault"] in run.stderr, \
                    f"{entry}: expected a fault that says {want['fault']!r}, got {run.returncode}: {run.stderr}"
                print(f"{entry}: refused: {run.stderr.strip()}")
                continue
            assert run.returncode == 0, f"{entry}: {run.stderr}"
            print(f"{entry}: {compare(entry, want, run.stdout)} samples")
            compared += 1
    if lacked:
        print(f"not compared, because {lacking}: {', '.join(lacked)}")
    assert compared, "no source was compared"


if __name__ == "__main__":
    main()
