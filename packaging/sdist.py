#!/usr/bin/env python3
"""Writes the source distribution: the tree of a commit, with a pyproject.toml at its top, so that pip builds it.

    packaging/sdist.py COMMIT OUTPUT.tar.gz

The same commit gives the same bytes: names are sorted, and times, owners and permissions do not depend on the machine. The file is also
the original source of the Debian packages. pip needs pyproject.toml at the top; that of client/python names the places of the others
relative to itself, so they are rewritten."""
import gzip
import io
import subprocess
import sys
import tarfile

import metadata

REWRITTEN = (('backend-path = ["."]', 'backend-path = ["client/python"]'),
             ('readme = "README.md"', 'readme = "client/python/README.md"'),
             ('cmake.source-dir = "../.."', 'cmake.source-dir = "."'),
             ('input = "../../CMakeLists.txt"', 'input = "CMakeLists.txt"'))


def git(*arguments):
    return subprocess.run(["git", *arguments], stdout=subprocess.PIPE, check=True).stdout


def project_at_top(text):
    for old, new in REWRITTEN:
        if text.count(old) != 1:
            sys.exit(f"sdist: expected `{old}` once in client/python/pyproject.toml")
        text = text.replace(old, new)
    return text


def main():
    commit, output = sys.argv[1:]
    when = int(git("show", "-s", "--format=%ct", commit))
    files = {}
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as tree:
        for member in tree:
            if member.isfile():
                files[member.name] = (tree.extractfile(member).read(), 0o755 if member.mode & 0o100 else 0o644)
            elif not member.isdir():
                sys.exit(f"sdist: {member.name} is neither a file nor a folder")
    text = {name: files[name][0].decode() for name in ("CMakeLists.txt", "client/python/pyproject.toml", "client/python/README.md")}
    project = project_at_top(text["client/python/pyproject.toml"])
    files["pyproject.toml"] = (project.encode(), 0o644)
    files["PKG-INFO"] = (metadata.metadata(text["CMakeLists.txt"], project, text["client/python/README.md"]).encode(), 0o644)
    top = f"penstock-{metadata.version_of(text['CMakeLists.txt'])}"
    with open(output, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=when) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(files):
            data, mode = files[name]
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), mode, when
            tar.addfile(entry, io.BytesIO(data))


main()
