#!/usr/bin/env python3
"""The shared library exports what its headers promise, and nothing else.

    symbols.py NM LIBRARY HEADER...
"""

import re
import subprocess
import sys

# As the headers declare: PENSTOCK_API, a type, the name, an opening parenthesis.
DECLARED = re.compile(r"^PENSTOCK_API\b[^;(]*?\b(penstock_\w+)\s*\(", re.MULTILINE)


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: symbols.py NM LIBRARY HEADER...")
    nm, library, headers = sys.argv[1], sys.argv[2], sys.argv[3:]
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
