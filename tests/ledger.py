#!/usr/bin/env python3
"""Appends a row to the ledger of nightly runs for each promise of the last `ctest --preset nightly`.

    ledger.py LOG LEDGER COMMIT DATE   LOG: Testing/Temporary/LastTest.log of the build folder
    ledger.py --test                   checks this program against made-up logs and ledgers

Only the standard library."""
import os
import re
import sys
import tempfile

from promises import promises

HEADER = "| case | commit | date | result | figures, or what was found |\n|---|---|---|---|---|\n"


def rows(log, commit, date):
    """The table's lines; ValueError in words when there is nothing to record."""
    if not re.fullmatch(r"[0-9a-f]{8,40}", commit):
        raise ValueError(f"commit '{commit}': expected 8 to 40 hexadecimal digits")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
        raise ValueError(f"date '{date}': expected YYYY-MM-DD")
    with open(log, encoding="utf-8", errors="replace") as file:
        found = promises(file.read().splitlines())
    if not found:
        raise ValueError(f"{log}: no promise ran in it; nothing was recorded")
    lines = []
    for name, result, figures in found:
        text = figures.replace("|", "\\|") or ("not yet examined" if result == "BROKEN" else "")
        lines.append(f"| `{name}` | {commit} | {date} | {result} | {text} |\n")
    return lines


def append(log, ledger, commit, date):
    """Appends after the last row: the table is the end of the page."""
    with open(ledger, encoding="utf-8") as file:
        page = file.read()
    _, header, table = page.partition(HEADER)
    if not header or any(not line.startswith("|") for line in table.splitlines()):
        raise ValueError(f"{ledger}: expected a page that ends with the table "
                         f"'{HEADER.splitlines()[0]}'; nothing was recorded")
    new = rows(log, commit, date)
    with open(ledger + ".part", "w", encoding="utf-8") as file:
        file.write(page + ("" if page.endswith("\n") else "\n") + "".join(new))
    os.replace(ledger + ".part", ledger)
    return len(new)


def refused(*arguments):
    try:
        append(*arguments)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{arguments} was recorded")


def test():
    with tempfile.TemporaryDirectory() as folder:
        def write(name, text):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return path

        def read():
            with open(ledger, encoding="utf-8") as file:
                return file.read()

        log = write("log", "1/3 Testing: promise.a.one\npromise: 3 | 4 of 5\nTest Passed.\n"
                           "2/3 Testing: promise.b\nTest Failed.\n"
                           "3/3 Testing: promise.c\nTest Skipped.\n")
        ledger = write("ledger", "# Runs\n\n" + HEADER)
        assert append(log, ledger, "0123abcd", "2026-01-02") == 3
        expected = ("# Runs\n\n" + HEADER
                    + "| `a.one` | 0123abcd | 2026-01-02 | kept | 3 \\| 4 of 5 |\n"
                    + "| `b` | 0123abcd | 2026-01-02 | BROKEN | not yet examined |\n"
                    + "| `c` | 0123abcd | 2026-01-02 | skipped |  |\n")
        assert read() == expected, read()
        assert append(log, ledger, "0123abcd", "2026-01-03") == 3
        assert read().startswith(expected) and len(read().splitlines()) == 10
        before = read()
        assert "no promise ran" in refused(write("empty", ""), ledger, "0123abcd", "2026-01-02")
        assert "hexadecimal" in refused(log, ledger, "main", "2026-01-02")
        assert "YYYY-MM-DD" in refused(log, ledger, "0123abcd", "today")
        assert read() == before
        assert "ends with the table" in refused(log, write("other", "# Runs\n"), "0123abcd", "2026-01-02")
        behind = write("behind", "# Runs\n\n" + HEADER + "\nMore.\n")
        assert "ends with the table" in refused(log, behind, "0123abcd", "2026-01-02")
    print("the ledger's rows are as expected")


def main():
    if sys.argv[1:] == ["--test"]:
        return test()
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    try:
        print(f"{append(*sys.argv[1:])} rows appended to {sys.argv[2]}")
    except (OSError, ValueError) as error:
        sys.exit(f"ledger: {error}")


if __name__ == "__main__":
    main()
