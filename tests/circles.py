#!/usr/bin/env python3
"""No two files of a folder call each other in a circle, unless a header of the folder says why.

A module is NAME.c with NAME.h. Module A uses B where A.c mentions a function that B.c defines. Modules of one folder that use
each other, directly or around, are a circle. (tests/layering.py rejects headers that include each other.) A header, or a .c
file without one, allows a circle by a line of its opening comment:

    Circle: a, b, c: why they need each other.

    circles.py ROOT [FOLDER...]     checks made-up folders that must fail, then ROOT (or only these folders of it)

Standard library only.
"""

import re
import sys
import tempfile
from pathlib import Path

TOPS = ("daemon", "client", "proto")
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
TAG = re.compile(r'\b(?:struct|enum|union)\s+\w+')
# A function that other files may call: its name begins in a line that begins in column 0 and is not a declaration.
DEFINED = re.compile(r'^(?!static\b|typedef\b|#|return\b|else\b)[a-z_][\w \t*]*?[ \t*]([a-z_]\w*)\([^;{}]*?\)\s*(?:__attribute__\(\([^;{}]*?\)\)\s*)?\{',
                     re.MULTILINE)
WORD = re.compile(r'\b(?<!struct )(?<!enum )(?<![.>])[a-z_]\w*')
ALLOWED = re.compile(r'Circle: ([a-z0-9_, ]+):')


def modules_of(folder):
    """The modules of a folder: name -> files."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".c", ".h") and path.is_file():
            found.setdefault(path.stem, []).append(path)
    return found


def uses_of(folder, modules):
    """name -> {other: reason} of the modules of one folder."""
    texts = {path: path.read_text(encoding="utf-8") for paths in modules.values() for path in paths}
    codes = {path: TAG.sub("tag", STRING.sub('""', COMMENT.sub(" ", text))) for path, text in texts.items()}
    owner = {}
    for name, paths in modules.items():
        for path in paths:
            if path.suffix == ".c":
                for function in DEFINED.findall(codes[path]):
                    owner.setdefault(function, name)
    uses = {name: {} for name in modules}
    for name, paths in modules.items():
        for path in paths:
            if path.suffix == ".c":
                for word in sorted(set(WORD.findall(codes[path]))):
                    other = owner.get(word)
                    if other and other != name:
                        uses[name].setdefault(other, f"{path.name} calls {word}")
    return uses


def circles_of(uses):
    """The strongly connected components of more than one module (Tarjan, SIAM Journal on Computing 1(2), 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in uses[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            circle = []
            while True:
                circle.append(stack.pop())
                if circle[-1] == node:
                    break
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in uses:
        if node not in index:
            visit(node)
    return found


def check_folder(root, folder):
    modules = modules_of(folder)
    uses = uses_of(folder, modules)
    allowed = []
    for paths in modules.values():
        for path in paths:
            opening = COMMENT.match(path.read_text(encoding="utf-8"))
            for names in ALLOWED.findall(opening.group()) if opening else ():
                allowed.append({name.strip() for name in names.split(",")})
    faults = []
    for circle in circles_of(uses):
        if any(set(circle) <= names for names in allowed):
            continue
        links = [f"    {reason} ({name} -> {other})" for name in circle for other, reason in sorted(uses[name].items())
                 if other in circle]
        faults.append(f"{folder.relative_to(root)}: {', '.join(circle)} use each other in a circle:\n" + "\n".join(links))
    return faults


def check(root, only=()):
    root = root.resolve()
    folders = [root / name for name in only] if only else sorted(
        {path.parent for top in TOPS for path in (root / top).rglob("*.[ch]")})
    return len(folders), [fault for folder in folders for fault in check_folder(root, folder)]


MADE_UP = (
    ("calls", {"daemon/x/a.c": "int a_do(void)\n{\n\treturn b_do();\n}\n",
               "daemon/x/b.c": "int b_do(void)\n{\n\treturn a_do();\n}\n"}, 1),
    ("three", {"daemon/x/a.c": "int a_do(void)\n{\n\treturn b_do();\n}\n", "daemon/x/b.c": "int b_do(void)\n{\n\treturn c_do();\n}\n",
               "daemon/x/c.c": "int c_do(int a,\n\tint b)\n{\n\treturn a_do();\n}\n"}, 1),
    ("a header says why", {"daemon/x/a.h": "/* a: this.\n *\n * Circle: a, b: each asks the other. */\n",
                           "daemon/x/a.c": "int a_do(void)\n{\n\treturn b_do();\n}\n",
                           "daemon/x/b.c": "int b_do(void)\n{\n\treturn a_do();\n}\n"}, 0),
    ("in order", {"daemon/x/a.c": '#include "x/a.h"\n#include "x/b.h"\n/* b_do calls a_do */\nint a_do(void)\n{\n\treturn b_do();\n}\n',
                  "daemon/x/a.h": "", "daemon/x/b.h": "", "daemon/x/b.c": "int b_do(void)\n{\n\treturn 1;\n}\n"}, 0),
    ("statics", {"daemon/x/a.c": "static int same(void)\n{\n\treturn 0;\n}\nint a_do(void)\n{\n\treturn same() + b_do();\n}\n",
                 "daemon/x/b.c": "static int same(void)\n{\n\treturn 0;\n}\nint b_do(void)\n{\n\treturn same();\n}\n"}, 0),
)


def self_test():
    for title, files, expected in MADE_UP:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            faults = check(Path(folder))[1]
        if len(faults) != expected:
            sys.exit(f"circles: self-test '{title}' expected {expected} faults, got {faults}")


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: circles.py ROOT [FOLDER...]")
    self_test()
    count, faults = check(Path(sys.argv[1]), sys.argv[2:])
    for fault in faults:
        print(fault)
    if count == 0:
        sys.exit(f"circles: no sources below {sys.argv[1]}")
    print(f"circles: {count} folders, {len(faults)} faults ({len(MADE_UP)} made-up folders judged rightly first)")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
