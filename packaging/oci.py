#!/usr/bin/env python3
"""Writes a container image (OCI image layout 1.0 in a tar) of root folders.

    packaging/oci.py OUTPUT.tar --name NAME --version VERSION --created SECONDS \\
                     --architecture ARCHITECTURE ROOT...

The first ROOT is a whole layer. Each further ROOT is the same system at a later time: its layer has
what was added or changed since, and what was removed, as whiteouts. What the image runs by default
is in CONFIG.

The same folders give the same bytes: names are sorted, owners are numbers, no time is later than
SECONDS (since 1970), and nothing else of the machine is written. Needs root to read a root folder.
Standard library only."""
import argparse
import datetime
import filecmp
import gzip
import hashlib
import io
import json
import os
import stat
import sys
import tarfile

# No entry point: `podman run penstock` runs the daemon, and `podman run penstock penstock check`
# the command, as with the image of config/Dockerfile.
CONFIG = {
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    "Cmd": ["penstockd"],
}
LABELS = {
    "title": "penstock",
    "description": "Reads image datasets, serves training batches in shared memory",
    "licenses": "Apache-2.0",
}
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def problem(error):
    raise error


def paths(root):
    """Every path below the root, relative to it, and whether it is a folder. A folder comes before
    its contents."""
    found = {}
    for folder, folders, files in os.walk(root, onerror=problem):
        for name in folders + files:
            full = os.path.join(folder, name)
            found[os.path.relpath(full, root)] = os.path.isdir(full) and not os.path.islink(full)
    return dict(sorted(found.items(), key=lambda item: item[0].split("/")))


def same(old, new):
    """Whether a layer can leave out a path that a layer below it has."""
    before, after = os.lstat(old), os.lstat(new)
    for field in ("st_mode", "st_uid", "st_gid"):
        if getattr(before, field) != getattr(after, field):
            return False
    if stat.S_ISLNK(after.st_mode):
        return os.readlink(old) == os.readlink(new)
    if stat.S_ISREG(after.st_mode):
        return filecmp.cmp(old, new, shallow=False)
    return True


def entry_of(root, path, latest, linked):
    """The tar's entry of a path. A file that has another name in this layer becomes a link to that
    name; `linked` remembers them."""
    full = os.path.join(root, path)
    status = os.lstat(full)
    entry = tarfile.TarInfo(path)
    entry.mode, entry.uid, entry.gid = stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid
    entry.mtime = min(int(status.st_mtime), latest)
    if stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(full)
    elif not stat.S_ISREG(status.st_mode):
        sys.exit(f"oci: {full} is neither a file nor a folder nor a link")
    elif "security.capability" in os.listxattr(full):
        sys.exit(f"oci: {full} has capabilities, and the image would lose them")
    elif status.st_nlink > 1 and status.st_ino in linked:
        entry.type, entry.linkname = tarfile.LNKTYPE, linked[status.st_ino]
    else:
        entry.size = status.st_size
        linked[status.st_ino] = path
    return entry


def removed(before, after):
    """Paths of the layer below that this one lacks. What was in a folder goes with it, also where a
    file or a link takes its place."""
    folders = {path for path, is_folder in after.items() if is_folder} | {""}
    return [path for path in before if path not in after and os.path.dirname(path) in folders]


def layer(root, below, latest):
    """The layer's bytes, as a tar."""
    raw, linked = io.BytesIO(), {}
    before, after = paths(below) if below else {}, paths(root)
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in removed(before, after):
            folder, name = os.path.split(path)
            whiteout = tarfile.TarInfo(os.path.join(folder, f".wh.{name}"))
            whiteout.mtime = latest
            tar.addfile(whiteout)
        for path in after:
            if path in before and same(os.path.join(below, path), os.path.join(root, path)):
                continue
            entry = entry_of(root, path, latest, linked)
            if entry.isreg():
                with open(os.path.join(root, path), "rb") as data:
                    tar.addfile(entry, data)
            else:
                tar.addfile(entry)
    return raw.getvalue()


def packed(data):
    raw = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as compressed:
        compressed.write(data)
    return raw.getvalue()


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Archive:
    """The image layout, in memory until it is written."""

    def __init__(self):
        self.files = {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"})}

    def blob(self, kind, data):
        """Stores it, and returns its descriptor."""
        name = digest(data)
        self.files["blobs/" + name.replace(":", "/")] = data
        return {"mediaType": kind, "digest": name, "size": len(data)}

    def write(self, output, latest):
        with tarfile.open(output, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for folder in ("blobs", "blobs/sha256"):
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, latest
                tar.addfile(entry)
            for name in sorted(self.files):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime = len(self.files[name]), latest
                tar.addfile(entry, io.BytesIO(self.files[name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    for option in ("--name", "--version", "--architecture"):
        parser.add_argument(option, required=True)
    parser.add_argument("--created", type=int, required=True, metavar="SECONDS")
    parser.add_argument("roots", nargs="+", metavar="ROOT")
    arguments = parser.parse_args()
    latest = arguments.created
    created = datetime.datetime.fromtimestamp(latest, datetime.timezone.utc).isoformat()
    archive, layers, sums = Archive(), [], []
    for below, root in zip([None, *arguments.roots], arguments.roots):
        data = layer(root, below, latest)
        sums.append(digest(data))
        layers.append(archive.blob(LAYER, packed(data)))
    labels = {f"org.opencontainers.image.{key}": value for key, value in LABELS.items()}
    labels["org.opencontainers.image.version"] = arguments.version
    config = archive.blob(IMAGE_CONFIG, as_json({
        "created": created,
        "architecture": arguments.architecture,
        "os": "linux",
        "config": {**CONFIG, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": sums},
        "history": [{"created": created, "created_by": "packaging/oci.py"} for _ in sums],
    }))
    manifest = archive.blob(MANIFEST, as_json({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
    }))
    manifest["annotations"] = {
        "org.opencontainers.image.ref.name": arguments.version,
        "io.containerd.image.name": f"localhost/{arguments.name}:{arguments.version}",
    }
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]}
    archive.files["index.json"] = as_json(index)
    archive.write(arguments.output, latest)


if __name__ == "__main__":
    main()
