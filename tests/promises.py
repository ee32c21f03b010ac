#!/usr/bin/env python3
"""One line per promise of the last `ctest --preset nightly`: its name, whether it was kept, and the figures that it printed.

    promises.py LOG      LOG: Testing/Temporary/LastTest.log of the build folder

Exits with 1 when one was broken or none was looked at. Only the standard library."""
import re
import sys

BEGIN = re.compile(r"^\d+/\d+ Testing: promise\.(\S+)$")
SUMMARY = re.compile(r"^\d+ passed, \d+ failed")
RESULT_LINE = re.compile(r"^Test (?!time)[A-Z]")
RESULT = {"Passed": "kept", "Skipped": "skipped"}


def promises(lines):
    """(name, result, figures) of each."""
    found, name = [], None
    for line in lines:
        begins = BEGIN.match(line)
        if begins:
            name, figures, summary = begins[1], [], ""
        elif name and line.startswith("promise: "):
            figures.append(line.removeprefix("promise: ").strip())
        elif name and SUMMARY.match(line):
            summary = line
        elif name and RESULT_LINE.match(line):
            word = line.removeprefix("Test ").rstrip(".")
            found.append((name, RESULT.get(word, "BROKEN"), "; ".join(figures) or summary))
            name = None
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[2].strip())
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        found = promises(log.read().splitlines())
    for name, result, figures in found:
        print(f"{name:<28} {result:<8} {figures}")
    broken = sum(result == "BROKEN" for _, result, _ in found)
    print(f"{len(found)} promises, {broken} broken")
    return 1 if broken or not found else 0


if __name__ == "__main__":
    sys.exit(main())
