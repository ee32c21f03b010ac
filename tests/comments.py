#!/usr/bin/env python3
"""Comments in C sources keep their form: no comment reaches beyond 100 columns, and no banner is split over two lines.

clang-format leaves comments as they are written (.clang-format, ReflowComments), so this test looks at them.

    comments.py ROOT     checks made-up sources that must fail, then ROOT

Standard library only.
"""

import re
import sys
import tempfile
from pathlib import Path

TOPS = ("include", "proto", "daemon", "client", "tests")
SOURCES = (".c", ".h", ".cu", ".cpp", ".hpp")
WIDTH, TAB = 100, 8
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.DOTALL)
SPLIT_BANNER = re.compile(r"\n[ \t]*\*? *-{10,}")


def check_file(here, text):
    lines = text.split("\n")
    faults = []
    for match in TOKEN.finditer(text):
        comment = match.group()
        if comment[0] != "/":
            continue
        first = text.count("\n", 0, match.start())
        for number in range(first, first + comment.count("\n") + 1):
            if len(lines[number].expandtabs(TAB)) > WIDTH:
                faults.append(f"{here}:{number + 1}: a comment reaches beyond {WIDTH} columns")
        if SPLIT_BANNER.search(comment) and comment.count("\n") < 3:
            faults.append(f"{here}:{first + 1}: a banner is split over two lines")
    return faults


def check(root):
    paths = [path for top in TOPS for path in sorted((root / top).rglob("*"))
             if path.suffix in SOURCES and path.is_file()]
    return len(paths), [fault for path in paths
                        for fault in check_file(path.relative_to(root), path.read_text(encoding="utf-8"))]


MADE_UP = (
    ("short", "/* fits */\nint a; /* too */\n", None),
    ("a long string", 'const char *s = "/* ' + "x" * 100 + ' */";\n', None),
    ("long", "/* " + "x" * 100 + " */\n", "beyond"),
    ("tabs", "\t\t\t\t/* " + "x" * 66 + " */\n", "beyond"),
    ("behind code", "int a; /* " + "x" * 100 + " */\n", "beyond"),
    ("in the middle", "/* a\n * " + "x" * 100 + "\n * b */\n", "a.c:2"),
    ("a banner", "/* ---- options ---- */\n", None),
    ("a split banner", "/* ---- options\n * ------------------------------ */\n", "split"),
)


def self_test():
    for title, text, expected in MADE_UP:
        with tempfile.TemporaryDirectory() as root:
            path = Path(root, "daemon", "a.c")
            path.parent.mkdir()
            path.write_text(text, encoding="utf-8")
            faults = check(Path(root))[1]
        caught = not faults if expected is None else any(expected in fault for fault in faults)
        if not caught:
            sys.exit(f"comments: self-test '{title}' expected {expected!r}, got {faults}")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: comments.py ROOT")
    self_test()
    count, faults = check(Path(sys.argv[1]))
    for fault in faults:
        print(fault)
    if count == 0:
        sys.exit(f"comments: no sources below {sys.argv[1]}")
    print(f"comments: {count} files, {len(faults)} faults ({len(MADE_UP)} made-up sources judged rightly first)")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
