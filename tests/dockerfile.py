#!/usr/bin/env python3
"""The image of config/Dockerfile has the libraries that the programs are linked with.

    dockerfile.py DOCKERFILE PROGRAM...

The Dockerfile's last stage must install the Debian package of each library that a program names, and of files that they read. Needs ldd, readelf and dpkg-query
on Debian 12, from which the image is made; on other systems the test is skipped. Standard library only.
"""

import re
import subprocess
import sys
from pathlib import Path

SKIP = 77
IMAGE = "debian:12"
# The C library's package is in every image.
ALWAYS = {"libc6"}
# No program is linked with the certificates, and none reads https:// and s3:// without them.
FILES = {"/etc/ssl/certs/ca-certificates.crt": "ca-certificates"}


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def skip_elsewhere():
    try:
        release = Path("/etc/os-release").read_text()
    except OSError:
        release = ""
    if not re.search(r"^ID=debian$", release, re.MULTILINE) or not re.search(r'^VERSION_ID="12"$', release, re.MULTILINE):
        print(f"skipped: this system is not {IMAGE}")
        sys.exit(SKIP)


def installed(dockerfile):
    """The packages that the last stage installs."""
    text = dockerfile.replace("\\\n", " ")
    stage = text[text.rindex("\nFROM ") :]
    if not stage.startswith(f"\nFROM {IMAGE}\n"):
        sys.exit(f"dockerfile: the last stage is not made from {IMAGE}: this test does not know its packages")
    words = re.search(r"apt-get install ([^&\n]*)", stage)
    return {word for word in words[1].split() if not word.startswith("-")} if words else set()


def libraries(program):
    """The path of each library that the program itself names."""
    named = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "--wide", "--dynamic", program))
    paths = dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", program), re.MULTILINE))
    found = {}
    for name in named:
        if name.startswith("ld-linux"):
            continue
        if name not in paths:
            sys.exit(f"dockerfile: ldd does not find {name}, which {program} needs")
        # /lib is a link to /usr/lib. A package may list its files below either.
        found[name] = re.sub("^/usr", "", paths[name])
    return found


def packages(programs):
    """The package of each library that one of the programs names."""
    paths = {name: path for program in programs for name, path in libraries(program).items()}
    # It fails if it does not find one path, and answers for the others.
    answer = subprocess.run(
        ["dpkg-query", "--search", *paths.values(), *("/usr" + path for path in paths.values())],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ).stdout
    owners = {re.sub("^/usr", "", path): package for package, path in re.findall(r"^([^:,\s]+)\S*: (\S+)$", answer, re.MULTILINE)}
    unowned = sorted(path for path in paths.values() if path not in owners)
    if unowned:
        sys.exit(f"dockerfile: no Debian package has {', '.join(unowned)}: the image would lack it")
    return {name: owners[path] for name, path in paths.items()}


def missing(dockerfile, needed):
    listed = installed(dockerfile) | ALWAYS
    return sorted(f"{package} ({name})" for name, package in {**needed, **FILES}.items() if package not in listed)


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: dockerfile.py DOCKERFILE PROGRAM...")
    skip_elsewhere()
    dockerfile, needed = Path(sys.argv[1]).read_text(), packages(sys.argv[2:])
    lacks = missing(dockerfile, needed)
    if lacks:
        sys.exit(f"dockerfile: the image's last stage does not install {', '.join(lacks)}")
    # The test must notice a package that is taken out.
    for package, name in (("libjansson4", "libjansson.so.4"), ("ca-certificates", *FILES)):
        if missing(re.sub(rf"\b{package}\b", "", dockerfile), needed) != [f"{package} ({name})"]:
            sys.exit(f"dockerfile: this test did not notice that {package} was taken out")


if __name__ == "__main__":
    main()
