#!/usr/bin/env python3
"""Checks a container image in an OCI archive, and unpacks it as an engine would.

    oci_unpack.py ARCHIVE.tar FOLDER

Every blob must have the size and the digest of its descriptor, no blob may be left over, and each
unpacked layer must have the digest that the image's configuration names. Prints the configuration.
Written from the specification, without a line of packaging/oci.py. Standard library only."""
import gzip
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path


class Damaged(Exception):
    """What is wrong with the archive."""


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Archive:
    def __init__(self, path):
        with tarfile.open(path) as tar:
            files = [member for member in tar if member.isfile()]
            self.files = {member.name: tar.extractfile(member).read() for member in files}
        self.used = set()
        if json.loads(self.file("oci-layout")) != {"imageLayoutVersion": "1.0.0"}:
            raise Damaged("oci-layout does not name version 1.0.0")

    def file(self, name):
        if name not in self.files:
            raise Damaged(f"the archive has no {name}")
        self.used.add(name)
        return self.files[name]

    def blob(self, descriptor):
        data = self.file("blobs/" + descriptor["digest"].replace(":", "/"))
        name, size = descriptor["digest"], descriptor["size"]
        if len(data) != size:
            raise Damaged(f"{name} has {len(data)} bytes; its descriptor says {size}")
        if digest(data) != name:
            raise Damaged(f"the bytes of {name} have the digest {digest(data)}")
        return data


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def place(tar, member, folder):
    """One entry of a layer. A folder that is there stays; anything else makes way."""
    target = folder / member.name
    if target.name.startswith(".wh."):
        remove(target.with_name(target.name[len(".wh."):]))
        return
    if not member.isdir() or target.is_symlink() or not target.is_dir():
        remove(target)
    if member.isdir():
        target.mkdir(exist_ok=True)
    elif member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        os.link(folder / member.linkname, target, follow_symlinks=False)
        return
    else:
        target.write_bytes(tar.extractfile(member).read())
    if os.geteuid() == 0:
        os.chown(target, member.uid, member.gid, follow_symlinks=False)
    if not member.issym():
        target.chmod(member.mode)
    os.utime(target, (member.mtime, member.mtime), follow_symlinks=False)


def unpack(path, folder):
    """Returns the configuration, and of each layer its entries."""
    archive = Archive(path)
    index = json.loads(archive.file("index.json"))
    if len(index["manifests"]) != 1:
        raise Damaged(f"expected one manifest, found {len(index['manifests'])}")
    manifest = json.loads(archive.blob(index["manifests"][0]))
    config = json.loads(archive.blob(manifest["config"]))
    sums = config["rootfs"]["diff_ids"]
    if len(sums) != len(manifest["layers"]):
        raise Damaged(f"{len(manifest['layers'])} layers, but {len(sums)} digests of them")
    layers = []
    for descriptor, expected in zip(manifest["layers"], sums):
        data = gzip.decompress(archive.blob(descriptor))
        if digest(data) != expected:
            name = descriptor["digest"]
            raise Damaged(f"the layer {name} unpacks to {digest(data)}, not to {expected}")
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            layers.append(tar.getmembers())
            for member in layers[-1]:
                place(tar, member, folder)
    left = set(archive.files) - archive.used
    if left:
        raise Damaged(f"no descriptor names {', '.join(sorted(left))}")
    return config, layers


def main():
    config, layers = unpack(sys.argv[1], Path(sys.argv[2]))
    for number, members in enumerate(layers):
        size = sum(member.size for member in members)
        print(f"layer {number}: {len(members)} entries, {size:,} bytes")
    print(json.dumps(config, indent=1))


if __name__ == "__main__":
    try:
        main()
    except Damaged as damage:
        sys.exit(f"oci_unpack: {sys.argv[1]}: {damage}")
