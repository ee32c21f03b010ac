#!/usr/bin/env python3
"""Writes the fixtures of WebDataset tars and of a folder, and what Python's tarfile and torchvision's rule find in them."""

import io
import json
import sys
import tarfile
import zlib
from pathlib import Path

HERE = Path(__file__).parent


def main():
    names = [("b", 1), ("a", 0), ("c/d", 1)]
    samples = []
    with tarfile.open(HERE / "shard.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, label in names:
            image = b"\xff\xd8\xff" + key.encode() * 20
            for extension, data in (("jpg", image), ("cls", str(label).encode())):
                info = tarfile.TarInfo(f"{key}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    with tarfile.open(HERE / "shard.tar") as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}
    for name, data in members.items():
        key, extension = name.split(".")
        if extension == "jpg":
            samples.append({"key": key, "name": name, "size": len(data), "crc32": zlib.crc32(data),
                            "label": int(members[f"{key}.cls"])})
    unlabeled = [{**sample, "label": None} for sample in samples]
    expected = {
        "shard.tar": {"classes": None, "samples": samples},
        "{shard,shard}.tar": {"classes": None, "samples": samples * 2},
        "shard.tar #none": {"classes": None, "samples": unlabeled, "options": {"labels": "none"}},
        "shard.tar #column": {"options": {"image_column": "image"}, "fault": "it has no columns: leave out image_column"},
        "make.py": {"fault": "is not a tar file"},
    }
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
