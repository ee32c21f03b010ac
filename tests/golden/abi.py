"""What programs were compiled with: layouts and numbers of the public headers and of the protocol (layout.c prints them), and the names
that the libraries export.

    abi.py NM LIBPENSTOCK [LIBPENSTOCK_CUDA]"""
import subprocess
import sys

from golden import compare, harness

ARGUMENTS, sys.argv[1:] = sys.argv[1:4], []


def test_layouts_and_numbers():
    lines = subprocess.run([harness.tool("golden_layout")], capture_output=True, text=True, check=True).stdout.splitlines()
    wire = [line for line in lines if "wire_" in line.lower() or "slots_" in line.lower()]
    compare("layout", {"public": [line for line in lines if line not in wire], "protocol": wire})


def test_exported_names():
    """With their versions; an older program finds each of them."""
    if len(ARGUMENTS) < 2:
        raise harness.Skip("no shared library was named")
    nm, *libraries = ARGUMENTS
    found = {}
    for library in libraries:
        listing = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        found[library.rsplit("/", 1)[1].split(".so")[0]] = sorted(" ".join(line.split()[1:]) for line in listing.splitlines())
    if len(libraries) < 2:
        raise harness.Skip("libpenstock_cuda was not built")
    compare("symbols", found, grows=True)


if __name__ == "__main__":
    harness.run_tests(globals())
