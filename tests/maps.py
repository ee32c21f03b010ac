#!/usr/bin/env python3
"""Each folder of sources has a map, and the map is true.

The main file of a folder opens with a comment that contains the line "A map of this folder:" and, below it, one line for each
file of the folder (files that belong together may share a line):

     *   name.[ch]          what it is
     *   name.h, other.c    what they are
     *   name_*.c           what they are, all of that form
     *   name/              a folder below this one

An indented line that names no file continues the line above. The map names every .c, .h, .cu and .py file of its folder, and
nothing that is not there. A folder with fewer than four sources may do without a map. A folder has one map.

    maps.py ROOT [FOLDER...]     checks made-up folders that must fail, then ROOT (or only these folders of it)

It also rejects a folder with more than 32 sources. Standard library only.
"""

import fnmatch
import re
import sys
import tempfile
from pathlib import Path

TOPS = ("daemon", "client", "proto")
SOURCES = (".c", ".h", ".cu", ".py")
ROOM = 32  # sources of a folder
WITHOUT = 4  # sources from which on a folder needs a map
TITLE = "A map of this folder:"
NAME = r"[A-Za-z_][\w*]*(?:\.\[ch\]|\.(?:c|h|cu|py)|/)"
LINE = re.compile(rf"^[ *#]{{2,}}({NAME}(?:, {NAME})*)(?:  +| *$)")
OPENING = re.compile(r'\s*(?:/\*.*?\*/|"""[^"]*"""|(?:#[^\n]*\n)+)', re.DOTALL)


def map_of(path):
    """[(line number, name)] of the map in a file's opening comment, or None."""
    text = path.read_text(encoding="utf-8")
    opening = OPENING.match(text)
    if not opening or TITLE not in opening.group():
        return None
    lines = opening.group().split("\n")
    begin = next(number for number, line in enumerate(lines) if TITLE in line)
    found = []
    for number, line in enumerate(lines[begin + 1:], begin + 2):
        match = LINE.match(line)
        if match:
            found += [(number, name) for name in match.group(1).split(", ")]
        elif found and not line.strip(" */#\""):
            break  # the empty line behind the map
    return found


def matches(folder, name):
    """The names of the files that an entry of a map names."""
    if name.endswith("/"):
        return [name] if (folder / name).is_dir() else []
    names = [name[:-4] + "c", name[:-4] + "h"] if name.endswith("[ch]") else [name]
    present = [path.name for path in folder.iterdir() if path.is_file()]
    found = [[other for other in present if fnmatch.fnmatchcase(other, one)] for one in names]
    return [] if any(not some for some in found) else sum(found, [])


def check_folder(root, folder):
    here = folder.relative_to(root)
    sources = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in SOURCES)
    faults = []
    if len(sources) > ROOM:
        faults.append(f"{here}: {len(sources)} sources; a folder has at most {ROOM}: make a room within it")
    maps = [(path, entries) for path in sources if (entries := map_of(path)) is not None]
    if len(maps) > 1:
        faults.append(f"{here}: more than one map: {', '.join(path.name for path, _ in maps)}")
    if not maps:
        if len(sources) >= WITHOUT:
            faults.append(f'{here}: no map: its main file opens with "{TITLE}" and a line for each of its {len(sources)} sources')
        return faults
    path, entries = maps[0]
    named = set()
    for line, name in entries:
        files = matches(folder, name)
        if not files:
            faults.append(f"{here / path.name}:{line}: the map names {name}, which is not in {here}")
        named.update(files)
    for source in sources:
        if source.name not in named:
            faults.append(f"{here / path.name}: the map of {here} does not name {source.name}")
    return faults


def check(root, only=()):
    root = root.resolve()
    folders = [root / name for name in only] if only else sorted(
        {path.parent for top in TOPS for path in (root / top).rglob("*") if path.suffix in SOURCES and path.is_file()})
    return len(folders), [fault for folder in folders for fault in check_folder(root, folder)]


HEAD = "/* x: a thing.\n *\n * A map of this folder:\n"
MADE_UP = (
    ("true", {"a.h": HEAD + " *   a.[ch]   this\n *              and more of it\n *   b.c, c.c   those\n *\n * Not d.c. */\n",
              "a.c": "", "b.c": "", "c.c": ""}, None),
    ("a form", {"a.h": HEAD + " *   a.h   this\n *   b_*.c   those */\n", "b_x.c": "", "b_y.c": "", "CMakeLists.txt": ""}, None),
    ("missing file", {"a.h": HEAD + " *   a.h   this\n *   gone.c   that */\n", "b.c": ""}, "gone.c, which is not in"),
    ("half of a pair", {"a.h": HEAD + " *   a.[ch]   this */\n"}, "a.[ch], which is not in"),
    ("unnamed file", {"a.h": HEAD + " *   a.h   this */\n", "b.c": ""}, "does not name b.c"),
    ("run together", {"a.h": HEAD + " *   a.h   this b.c   that */\n", "b.c": ""}, "does not name b.c"),
    ("no map", {name + ".c": "" for name in "abcd"}, "no map"),
    ("two maps", {"a.h": HEAD + " *   [ab].h  these */\n", "b.h": HEAD + " *   b.h  this */\n"}, "more than one map"),
    ("too many", {f"f{n}.c": "" for n in range(33)}, "at most 32"),
    ("Python", {"a.py": '"""a: a thing.\n\nA map of this folder:\n\n  a.py    this\n  b.py    that\n"""\n', "b.py": ""}, None),
)


def self_test():
    for title, files, expected in MADE_UP:
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root, "daemon", "x")
            folder.mkdir(parents=True)
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")
            faults = check(Path(root))[1]
        caught = not faults if expected is None else any(expected in fault for fault in faults)
        if not caught:
            sys.exit(f"maps: self-test '{title}' expected {expected!r}, got {faults}")


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: maps.py ROOT [FOLDER...]")
    self_test()
    count, faults = check(Path(sys.argv[1]), sys.argv[2:])
    for fault in faults:
        print(fault)
    if count == 0:
        sys.exit(f"maps: no sources below {sys.argv[1]}")
    print(f"maps: {count} folders, {len(faults)} faults ({len(MADE_UP)} made-up folders judged rightly first)")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
