#!/usr/bin/env python3
"""One line per promise of the last `ctest --preset nightly`: its name, whether it was kept, and the figures that it printed.

    promises.py LOG                 LOG: Testing/Temporary/LastTest.log of the build folder; exits with 1 when one was broken or none looked at
    promises.py --page PAGE NAMES   PAGE, docs/evidence/promises.md, must name in its table each of the tests in the file NAMES, and no other

Only the standard library."""
import re
import sys

BEGIN = re.compile(r"^\d+/\d+ Testing: promise\.(\S+)$")
SUMMARY = re.compile(r"^(\d+) passed, \d+ failed")
SKIPPED = re.compile(r"^(?:skipped: |skip \S+: )(.*)")
RESULT_LINE = re.compile(r"^Test (?!time)[A-Z]")
RESULT = {"Passed": "kept", "Skipped": "skipped"}


def promises(lines):
    """(name, result, figures) of each. CTest's log says "Passed" of a test that was skipped too: then it
    printed why, no figures, and no count of what passed."""
    found, name = [], None
    for line in lines:
        begins = BEGIN.match(line)
        if begins:
            name, figures, summary, passed, reason = begins[1], [], "", False, ""
        elif name and line.startswith("promise: "):
            figures.append(line.removeprefix("promise: ").strip())
        elif name and SUMMARY.match(line):
            summary, passed = line, SUMMARY.match(line)[1] != "0"
        elif name and SKIPPED.match(line):
            reason = SKIPPED.match(line)[1]
        elif name and RESULT_LINE.match(line):
            word = line.removeprefix("Test ").rstrip(".")
            if word == "Passed" and reason and not figures and not passed:
                word, summary = "Skipped", reason
            found.append((name, RESULT.get(word, "BROKEN"), "; ".join(figures) or summary))
            name = None
    return found


def check_page(page, names):
    """What is wrong with it, in words."""
    text = open(page, encoding="utf-8").read()
    named = set(re.findall(r"`promise\.([a-z_.-]+)`", text))
    tests = set(open(names, encoding="utf-8").read().split())
    return ([f"{page}: promise.{name} is a test, and no row names it" for name in sorted(tests - named)]
            + [f"{page}: promise.{name} is no test" for name in sorted(named - tests)])


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--page":
        wrong = check_page(*sys.argv[2:])
        print("\n".join(wrong) or "every promise has its row")
        return 1 if wrong else 0
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        found = promises(log.read().splitlines())
    for name, result, figures in found:
        print(f"{name:<28} {result:<8} {figures}")
    broken = sum(result == "BROKEN" for _, result, _ in found)
    print(f"{len(found)} promises, {broken} broken")
    return 1 if broken or not found else 0


if __name__ == "__main__":
    sys.exit(main())
