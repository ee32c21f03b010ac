#!/usr/bin/env python3
"""Compares the table of a stream's keys (proto/keys.h) with everything that people read of it: the manual page and the example
of penstock.yaml, the protocol, the public header, and the arguments of the Python package's Loader. Each key must be in each of
them, with the range and the default that the table has.

    keys.py ROOT     judges a made-up key that no document has, which must fail, then ROOT

Standard library only."""
import ast
import re
import sys
from pathlib import Path

ROW = re.compile(r"\tKEY\(with, (\w+), (\w+), ([\w.]+), (?:OWN|ELSEWHERE), ([^,]+), ([^,]+), ([^,]+), (\w+), (\w+), (\w+), (\w+), (.*)\) *\\?$", re.MULTILINE)
TYPES = {"U32": "uint32_t", "I32": "int32_t", "SIZE": "uint32_t", "VIEWS": "uint32_t", "U64": "uint64_t", "REAL": "double", "FLAG": "int32_t", "SWITCH": "int32_t", "SHUFFLE": "int32_t",
         "TEXT": "const char", "PATH": "const char", "JSON": "const char", "CHANNELS": "const float"}
NUMBERS = {"UINT32_MAX": 2**32 - 1, "UINT64_MAX": 2**64 - 1}
# Keys that Loader does not have (a loader is iterated epoch by epoch), or has by another name.
LOADER = {"epochs": None, "pin_memory": None, "layout": "channels_last", "laggard_timeout_s": "laggard_timeout"}


class Key:
    def __init__(self, columns):
        (self.name, self.kind, _, low, high, self.plain, _, self.option, self.who, self.alike, rest) = columns
        self.low, self.high = (NUMBERS.get(value) or int(value) for value in (low, high))
        words = re.search(r'"([\w-]+(?:\|[\w-]+)+)"', rest)
        self.words = words[1].split("|") if words and self.kind == "WORD" else []


def read_keys(root):
    text = (root / "proto/keys.h").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = text.replace("PENSTOCK_FILTERS", re.search(r'define PENSTOCK_FILTERS (".*?")', text)[1])
    text = re.sub(r", \\\n\t\t", ", ", text)
    keys = [Key(columns) for columns in ROW.findall(text)]
    assert len(keys) == text.count("\tKEY(with,"), "a row of proto/keys.h that this test cannot read"
    return keys


def manual(root, key):
    text = (root / "docs/man/penstock.yaml.5.scd").read_text()
    entry = re.search(rf"^\*{key.name}:\* ([^\t]*?)\n\t", text, re.MULTILINE)
    if not entry:
        yield f"has no entry *{key.name}:*"
        return
    head = " ".join(entry[1].split())
    if key.kind in ("U32", "I32", "U64", "REAL") and key.name != "rank":
        most = "2^48" if key.high == 2**48 else str(key.high)
        if not head.startswith(f"{key.low} to {most}"):
            yield f"*{key.name}:* begins with {head!r}, and the range is {key.low} to {most}"
    if key.words and not head.startswith(" | ".join(f"*{word}*" for word in key.words)):
        yield f"*{key.name}:* begins with {head!r}, and the words are {key.words}"
    numeric = key.kind in ("U32", "I32", "U64", "REAL") and key.who != "CLIENT" and key.low <= float(key.plain)
    if numeric and f"(default: *{key.plain}*)" not in head:
        yield f"*{key.name}:* is {head!r}, and the default is {key.plain}"
    if key.kind == "FLAG" and f"(default: {'as *train*' if key.option == 'SWITCH' else '*' + key.plain + '*'})" not in head:
        yield f"*{key.name}:* is {head!r}, and the default is {key.plain}"


def example(root, key):
    if key.who == "CLIENT" or key.name == "stream":
        return
    text = (root / "config/penstock.yaml").read_text()
    entry = re.search(rf"^#     (# )?{key.name}:[ ]?(.*)$", text, re.MULTILINE)
    if not entry:
        yield f"has no example of {key.name}:"
    elif not entry[1] and key.kind in ("U32", "I32", "U64", "REAL", "FLAG") and entry[2] != key.plain:
        yield f"has {key.name}: {entry[2]}, and the default is {key.plain}"


def protocol(root, key):
    if not re.search(rf"^\| [^|]*`{key.name}`[^|]*\|", (root / "proto/PROTOCOL.md").read_text(), re.MULTILINE):
        yield f"has no row of `{key.name}`"


def header(root, key):
    if key.option == "NONE":
        return
    text = (root / "include/penstock/penstock.h").read_text()
    fields = re.sub(r"/\*.*?\*/", "", re.search(r"struct penstock_options \{(.*?)^\};", text, re.DOTALL | re.MULTILINE)[1], flags=re.DOTALL)
    if not re.search(rf"(?<!\w){TYPES[key.option]}\s[^;]*?\b{key.name}\s*[,;]", fields):
        yield f"struct penstock_options has no {TYPES[key.option]} {key.name}"


def loader(root, key):
    argument = LOADER.get(key.name, key.name)
    if key.option == "NONE" or argument is None:
        return
    tree = ast.parse((root / "client/python/penstock/loader.py").read_text())
    init = next(f for c in tree.body if isinstance(c, ast.ClassDef) and c.name == "Loader"
                for f in c.body if isinstance(f, ast.FunctionDef) and f.name == "__init__")
    if argument not in {a.arg for a in init.args.args + init.args.kwonlyargs}:
        yield f"Loader has no argument {argument}"


def faults(root, keys):
    for place, judge in (("docs/man/penstock.yaml.5.scd", manual), ("config/penstock.yaml", example), ("proto/PROTOCOL.md", protocol),
                         ("include/penstock/penstock.h", header), ("client/python/penstock/loader.py", loader)):
        for key in keys:
            for fault in judge(root, key):
                yield f"{place}: {fault}"


def main():
    root = Path(sys.argv[1])
    keys = read_keys(root)
    unknown = Key(("nowhere", "U32", "nowhere", "1", "9", "3", "0", "U32", "DEFINITION", "SAME", "NONE, , , , "))
    assert len(list(faults(root, [unknown]))) == 5, "a key that is nowhere was found"
    moved = Key(("prefetch", "U32", "prefetch", "3", "64", "5", "0", "U32", "DEFINITION", "OWN", "NONE, , , , "))
    assert len(list(faults(root, [moved]))) == 3, "another range and another default were not noticed"
    found = list(faults(root, keys))
    print(*found, f"keys: {len(keys)} keys, {len(found)} faults (2 made-up keys judged rightly first)", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
