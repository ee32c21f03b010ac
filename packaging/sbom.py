#!/usr/bin/env python3
"""Writes a software bill of materials (CycloneDX 1.5, JSON) of a release's files.

    packaging/sbom.py VERSION WHEN OUTPUT.json FILE...

WHEN is the release's time in seconds since 1970. A wheel contributes the libraries that are linked into it, with the versions that
scripts/wheel stored in it; a Debian package the packages that it depends on, and the sources of its static libraries. The same files give the same bytes."""
import datetime
import hashlib
import json
import re
import subprocess
import sys
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


def main():
    version, when, output = sys.argv[1:4]
    components, dependencies = [], []
    for path in sorted(map(Path, sys.argv[4:]), key=lambda path: path.name):
        parts = list(linked(path)) if path.suffix == ".whl" else list(needed(path)) if path.suffix == ".deb" else []
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
