#!/usr/bin/env python3
"""Writes a software bill of materials (CycloneDX 1.5, JSON) of a release's files.

    packaging/sbom.py VERSION WHEN OUTPUT.json FILE...

WHEN is the release's time in seconds since 1970. A wheel contributes the libraries that are linked into it, with the versions that
scripts/wheel stored in it; a Debian package the packages that it depends on, and the sources of its static libraries; a container image the
packages that are installed in it. The same files give the same bytes."""
import datetime
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path


def digest(path):
    return [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]


def linked(wheel):
    """The libraries in a wheel: `NAME VERSION (Debian 12's source package)` in each line of libraries/versions."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith("licenses/libraries/versions")]
        if len(names) != 1:
            sys.exit(f"sbom: {wheel} has no list of libraries; expected a wheel of scripts/wheel")
        lines = archive.read(names[0]).decode().splitlines()
    for line in lines:
        found = re.fullmatch(r"(\S+) (\S+) \(.*\)", line)
        if not found:
            sys.exit(f"sbom: {wheel}: cannot read this line of its libraries: {line}")
        name, version = found.groups()
        yield {"type": "library", "bom-ref": f"{wheel.name}#{name}", "name": name, "version": version,
               "purl": f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}?arch=source&distro=bookworm"}


def field(package, name):
    value = subprocess.run(["dpkg-deb", "--field", package, name], stdout=subprocess.PIPE, text=True, check=True).stdout
    return filter(None, (word.strip() for word in value.split(",")))


def needed(package):
    """What a Debian package depends on, and the source packages whose static libraries are linked into it."""
    for item in field(package, "Depends"):
        name = re.split(r"[ :(|]", item)[0]
        yield {"type": "library", "bom-ref": f"{package.name}#{name}", "name": name, "scope": "required", "description": item,
               "purl": f"pkg:deb/debian/{name}?distro=bookworm"}
    for item in field(package, "Built-Using"):
        name, version = re.fullmatch(r"(\S+) \(= (\S+)\)", item).groups()
        yield {"type": "library", "bom-ref": f"{package.name}#source:{name}", "name": name, "version": version,
               "purl": f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}?arch=source&distro=bookworm"}


def installed(image):
    """The packages in a container image: the uppermost layer that has dpkg's list of them says which."""
    with tarfile.open(image) as archive:
        def blob(descriptor):
            return archive.extractfile("blobs/" + descriptor["digest"].replace(":", "/")).read()

        index = json.load(archive.extractfile("index.json"))
        for descriptor in reversed(json.loads(blob(index["manifests"][0]))["layers"]):
            with tarfile.open(fileobj=io.BytesIO(blob(descriptor))) as layer:
                if "var/lib/dpkg/status" in layer.getnames():
                    status = layer.extractfile("var/lib/dpkg/status").read().decode()
                    break
        else:
            sys.exit(f"sbom: no layer of {image} has a list of packages")
    for paragraph in status.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if re.match(r"[A-Z][A-Za-z-]*: ", line))
        name, version = fields["Package"], fields["Version"]
        where = f"?arch={fields['Architecture']}&distro=bookworm"
        part = {"type": "library", "bom-ref": f"{image.name}#{name}", "name": name, "version": version}
        # Debian has no packages of penstock.
        if fields.get("Source", name) != "penstock":
            part["purl"] = f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}{where}"
        yield part


def parts_of(path):
    if path.suffix == ".whl":
        return list(linked(path))
    if path.suffix == ".deb":
        return list(needed(path))
    return list(installed(path)) if path.name.endswith(".oci.tar") else []


def main():
    version, when, output = sys.argv[1:4]
    components, dependencies = [], []
    for path in sorted(map(Path, sys.argv[4:]), key=lambda path: path.name):
        parts = parts_of(path)
        components.append({"type": "file", "bom-ref": path.name, "name": path.name, "hashes": digest(path)})
        components += parts
        dependencies.append({"ref": path.name, "dependsOn": [part["bom-ref"] for part in parts]})
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": datetime.datetime.fromtimestamp(int(when), datetime.timezone.utc).isoformat(),
                         "component": {"type": "application", "bom-ref": "penstock", "name": "penstock", "version": version,
                                       "licenses": [{"license": {"id": "Apache-2.0"}}]}},
            "components": components, "dependencies": dependencies}
    Path(output).write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")


main()
