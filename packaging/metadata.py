#!/usr/bin/env python3
"""Writes the metadata of the Python package for packages that pip does not install.

    packaging/metadata.py CMAKELISTS PYPROJECT README FOLDER

Writes FOLDER/penstock-VERSION.dist-info, in which Python finds the version (importlib.metadata) and what the package needs. Everything is
read from the files that the build by pip reads."""
import re
import sys
from pathlib import Path


def list_of(name, text):
    """The strings of a list in pyproject.toml. (Python 3.9 and 3.10 have no parser of TOML.)"""
    found = re.search(rf"^{name} = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
    if not found:
        sys.exit(f"metadata: pyproject.toml has no list `{name}`")
    return re.findall(r'"([^"]*)"', found[1])


def word_of(name, text):
    found = re.search(rf'^{name} = "([^"]*)"$', text, re.MULTILINE)
    if not found:
        sys.exit(f"metadata: pyproject.toml has no string `{name}`")
    return found[1]


def version_of(cmake):
    found = re.search(r"project\(penstock VERSION (\d+\.\d+\.\d+)", cmake)
    if not found:
        sys.exit("metadata: expected `project(penstock VERSION X.Y.Z` in CMakeLists.txt")
    return found[1]


def metadata(cmake, project, readme):
    """PKG-INFO of a source distribution, and METADATA of an installed package."""
    lines = ["Metadata-Version: 2.1", "Name: penstock", f"Version: {version_of(cmake)}",
             f"Summary: {word_of('description', project)}", f"License: {word_of('license', project)}",
             f"Keywords: {','.join(list_of('keywords', project))}", f"Requires-Python: {word_of('requires-python', project)}"]
    lines += [f"Classifier: {classifier}" for classifier in list_of("classifiers", project)]
    lines += [f"Requires-Dist: {needed}" for needed in list_of("dependencies", project)]
    for extra in ("torch", "jax"):
        lines += [f"Provides-Extra: {extra}"] + [f'Requires-Dist: {needed}; extra == "{extra}"' for needed in list_of(extra, project)]
    return "\n".join(lines + ["Description-Content-Type: text/markdown", "", readme])


def main():
    cmake, project, readme = (Path(name).read_text(encoding="utf-8") for name in sys.argv[1:4])
    folder = Path(sys.argv[4]) / f"penstock-{version_of(cmake)}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(metadata(cmake, project, readme), encoding="utf-8")
    (folder / "INSTALLER").write_text("dpkg\n", encoding="ascii")


if __name__ == "__main__":
    main()
