#!/usr/bin/env python3
"""Appends a row to the ledger of nightly runs for each promise of the last `ctest --preset nightly`.

    ledger.py LOG LEDGER COMMIT DATE   LOG: Testing/Temporary/LastTest.log of the build folder
    ledger.py --missing NAMES LEDGER COMMIT
                                       prints the cases of the file NAMES that the ledger does not say
                                       ran, kept or BROKEN, at COMMIT or a commit made after it
    ledger.py --test                   checks this program against made-up logs and ledgers

Only the standard library."""
import os
import re
import subprocess
import sys
import tempfile

from promises import promises

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/"
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
        text = figures.replace(ROOT, "").replace("|", "\\|") or ("not yet examined" if result == "BROKEN" else "")
        lines.append(f"| `{name}` | {commit} | {date} | {result} | {text} |\n")
    return lines


def read_page(ledger):
    """The whole page, and its table's lines below the header."""
    with open(ledger, encoding="utf-8") as file:
        page = file.read()
    _, header, table = page.partition(HEADER)
    if not header or any(not line.startswith("|") for line in table.splitlines()):
        raise ValueError(f"{ledger}: expected a page that ends with the table "
                         f"'{HEADER.splitlines()[0]}'; nothing was recorded")
    return page, table.splitlines()


def includes(commit, base, folder="."):
    """Whether commit is base or was made after it. A commit that this repository lacks is not."""
    return not subprocess.run(["git", "-C", folder, "merge-base", "--is-ancestor", base, commit],
                              stderr=subprocess.DEVNULL, check=False).returncode


def missing(names, ledger, counts):
    """Those of names without a row of a commit that counts. A case that was skipped did not run."""
    ran = set()
    for line in read_page(ledger)[1]:
        name, commit, _, result = (field.strip() for field in line.split("|")[1:5])
        if result != "skipped" and counts(commit):
            ran.add(name.strip("`"))
    return [name for name in names if name not in ran]


def append(log, ledger, commit, date):
    """Appends after the last row: the table is the end of the page."""
    page, _ = read_page(ledger)
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


def commit_in(folder):
    """Makes an empty commit in a repository of its own, and returns its name."""
    git = ["git", "-C", folder, "-c", "user.name=Test", "-c", "user.email=test@example.com"]
    if not os.path.exists(os.path.join(folder, ".git")):
        subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "empty"], check=True)
    return subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()


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
                           "3/3 Testing: promise.c\nskipped: no c | d in " + ROOT + ".venv\nTest Passed.\n")
        ledger = write("ledger", "# Runs\n\n" + HEADER)
        assert append(log, ledger, "0123abcd", "2026-01-02") == 3
        expected = ("# Runs\n\n" + HEADER
                    + "| `a.one` | 0123abcd | 2026-01-02 | kept | 3 \\| 4 of 5 |\n"
                    + "| `b` | 0123abcd | 2026-01-02 | BROKEN | not yet examined |\n"
                    + "| `c` | 0123abcd | 2026-01-02 | skipped | no c \\| d in .venv |\n")
        assert read() == expected, read()
        assert append(log, ledger, "0123abcd", "2026-01-03") == 3
        assert read().startswith(expected) and len(read().splitlines()) == 10
        assert missing(["a.one", "b", "c", "d"], ledger, {"0123abcd"}.__contains__) == ["c", "d"]
        assert missing(["a.one", "b"], ledger, {"89abcdef"}.__contains__) == ["a.one", "b"]
        commits = [commit_in(folder) for _ in range(2)]
        assert [[includes(made, base, folder) for base in commits] for made in commits] == [[True, False], [True, True]]
        assert not includes("0123abcd", commits[0], folder)
        assert [promise[1:] for promise in promises([
            "1/3 Testing: promise.a", "skip test_a: no a", "0 passed, 0 failed, 1 skipped", "Test Passed.",
            "2/3 Testing: promise.b", "skip test_a: no a", "1 passed, 0 failed, 1 skipped", "Test Passed.",
            "3/3 Testing: promise.c", "Test Passed."])] == [
                ("skipped", "no a"), ("kept", "1 passed, 0 failed, 1 skipped"), ("kept", "")]
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
        if sys.argv[1] == "--missing":
            with open(sys.argv[2], encoding="utf-8") as names:
                left = missing(names.read().split(), sys.argv[3], lambda made: includes(made, sys.argv[4]))
            return print("\n".join(left), end="\n" if left else "")
        print(f"{append(*sys.argv[1:])} rows appended to {sys.argv[2]}")
    except (OSError, ValueError) as error:
        sys.exit(f"ledger: {error}")


if __name__ == "__main__":
    main()
