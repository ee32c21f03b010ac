#!/usr/bin/env python3
"""The shared library exports what its headers promise, and nothing else, and has no thread-local variables: where it is loaded late,
glibc makes those at a thread's first use, and ends the process where there is no memory.

    symbols.py NM LIBRARY [HEADER...]

Without headers, as a Python extension has none: only the latter.
"""

import re
import struct
import subprocess
import sys

# As the headers declare: PENSTOCK_API, a type, the name, an opening parenthesis.
DECLARED = re.compile(r"^PENSTOCK_API\b[^;(]*?\b(penstock_\w+)\s*\(", re.MULTILINE)
PT_TLS = 7


def has_thread_locals(library):
    """Whether a program header of the 64-bit ELF file is PT_TLS."""
    with open(library, "rb") as file:
        image = file.read()
    if image[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"symbols: {library} is no little-endian 64-bit ELF file")
    offset, = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    return any(struct.unpack_from("<I", image, offset + i * size)[0] == PT_TLS for i in range(count))


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: symbols.py NM LIBRARY [HEADER...]")
    nm, library, headers = sys.argv[1], sys.argv[2], sys.argv[3:]
    if has_thread_locals(library):
        sys.exit(f"symbols: {library} has thread-local variables")
    if not headers:
        return
    promised = set()
    for header in headers:
        with open(header, encoding="utf-8") as file:
            promised.update(DECLARED.findall(file.read()))
    listing = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in listing.splitlines() if line.split()[-2] != "A"}
    missing, extra = sorted(promised - exported), sorted(exported - promised)
    if not promised:
        sys.exit("symbols: the headers declare nothing with PENSTOCK_API")
    for name in missing:
        print(f"declared in the headers but not exported: {name}")
    for name in extra:
        print(f"exported but not declared with PENSTOCK_API: {name}")
    print(f"symbols: {len(exported)} exported, {len(promised)} promised")
    sys.exit(1 if missing or extra else 0)


if __name__ == "__main__":
    main()
