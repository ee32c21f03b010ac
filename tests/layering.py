#!/usr/bin/env python3
"""Rejects #include lines that point up.

Dependencies run one way: proto, which daemon and client share, at the bottom, then base, the stages, stream, serve, main;
the client sees only proto and include. The table below is that sentence, folder by folder. A folder that is not in it is an error too, so
that a new one has to say where it belongs.

    layering.py ROOT     checks made-up trees that must fail, then ROOT

Standard library only.
"""

import re
import sys
import tempfile
from pathlib import Path

STAGES = ("order", "dataset", "labels", "remote", "unpack", "fetch", "decode", "pixel", "batch", "stats", "record", "http")
COMMON = ("daemon/base", "proto")

# Folder -> what its files may include besides their own folder: folders (with those below them), or single headers. The
# longest matching folder counts.
MAY_SEE = {
    "include": (),
    "proto": (),
    "daemon/base": ("proto",),
    "daemon/confine": COMMON,
    **{f"daemon/{stage}": COMMON for stage in STAGES},
    "daemon/remote": (*COMMON, "daemon/stats/histogram.h"),
    # How samples are stored is part of an index; unpacking knows nothing else of datasets.
    "daemon/unpack": (*COMMON, "daemon/dataset/packed.h"),
    "daemon/dataset": (*COMMON, "daemon/labels", "daemon/order", "daemon/remote", "daemon/unpack"),
    "daemon/fetch": (*COMMON, "daemon/dataset", "daemon/remote"),
    "daemon/decode": (*COMMON, "daemon/decode/jpeg/jpegdec.h", "daemon/decode/jpeg/kernels/planes_kernels.h"),
    # The front half of decoding: penstock's own decoder sees what the door promises, and the door calls it.
    "daemon/decode/jpeg": (*COMMON, "daemon/decode/decode.h", "daemon/decode/stages.h", "daemon/decode/stepback.h"),
    "daemon/augment": (*COMMON, "daemon/pixel"),
    "daemon/definition": (*COMMON, "daemon/augment", "daemon/order", "daemon/dataset", "daemon/labels", "daemon/pixel",
                          "daemon/batch", "daemon/decode/measure.h"),
    "daemon/stream": (*COMMON, "daemon/augment", "daemon/definition", *(f"daemon/{stage}" for stage in STAGES)),
    # The settings lie beside main.c, but nothing in them points at serve: it may see that one header.
    "daemon/serve": (*COMMON, "daemon/augment", "daemon/confine", "daemon/definition", "daemon/stream", "daemon/config.h",
                     *(f"daemon/{stage}" for stage in STAGES)),
    "daemon": ("daemon", "proto"),  # main.c, config.[ch]
    "client/lib": ("proto", "include"),
    # What is mixed on a device and what on the CPU is drawn by one file.
    "client/cuda": ("proto", "include", "client/lib/mix/mixplan.h"),
    # `penstock plan` says what memory a daemon would need: by the pure functions that the daemon itself asks.
    "client/cli": ("proto", "include", "daemon/base", "daemon/augment", "daemon/definition", "daemon/stream",
                   "daemon/serve/budget.h", *(f"daemon/{stage}" for stage in STAGES)),
    "client/cli/pack": ("client/cli", "proto", "daemon/base", *(f"daemon/{stage}" for stage in STAGES)),
    "client/examples": ("include",),
    # Which fields of the options there are: the one table of a stream's keys says it, and needs no code.
    "client/python/src": ("include", "proto/keys.h"),
    "tests": ("tests", "daemon", "proto", "client", "include"),
}
# Where an include is looked up after the including file's own folder: the build's -I, in this order.
SEARCH = ("", "daemon", "include", "tests")
SOURCES = ("include", "proto", "daemon", "client", "tests")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def folder_of(path):
    """The table's folder that `path` (relative to the root) lies in, or None."""
    for parent in path.parents:
        if parent.as_posix() in MAY_SEE:
            return parent.as_posix()
    return None


def may_see(folder, target):
    """Whether files of `folder` may include the file `target`."""
    if folder_of(target) == folder:
        return True
    return any(target.is_relative_to(seen) for seen in MAY_SEE[folder])


def includes_of(path):
    """(line, name, quoted) of each include of a file; comments do not count."""
    text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), path.read_text(encoding="utf-8"))
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(2), match.group(1) == '"'


def resolve(root, path, name, quoted):
    """The file of ours that an include names, relative to the root, or None where it is the system's."""
    places = ([path.parent] if quoted else []) + [root / folder for folder in SEARCH]
    for place in places:
        candidate = (place / name).resolve()
        if candidate.is_file() and root in candidate.parents:
            return candidate.relative_to(root)
    return None


def find_cycle(graph):
    """One cycle of includes as a list of files, or None."""
    done, trail = set(), []

    def visit(node):
        if node in trail:
            return trail[trail.index(node):] + [node]
        if node in done:
            return None
        trail.append(node)
        for target in graph.get(node, ()):
            cycle = visit(target)
            if cycle:
                return cycle
        trail.pop()
        done.add(node)
        return None

    for node in sorted(graph):
        cycle = visit(node)
        if cycle:
            return cycle
    return None


def check(root):
    """Sentences about what is wrong with the tree at `root`; empty when nothing is."""
    root = root.resolve()
    faults, graph = [], {}
    files = [path for top in SOURCES for path in sorted((root / top).rglob("*.[ch]")) if path.is_file()]
    for path in files:
        here = path.relative_to(root)
        folder = folder_of(here)
        if folder is None or (here.parts[0] == "daemon" and folder == "daemon" and len(here.parts) > 2):
            faults.append(f"{here}: its folder is not in the table of tests/layering.py; say there what it may include")
            continue
        for line, name, quoted in includes_of(path):
            target = resolve(root, path, name, quoted)
            if target is None:
                if quoted:
                    faults.append(f'{here}:{line}: "{name}" is no file of this tree; system headers take <>')
                continue
            graph.setdefault(here.as_posix(), []).append(target.as_posix())
            if target.suffix == ".c" and folder != "tests":
                faults.append(f"{here}:{line}: includes {target}; only headers are included")
            if not may_see(folder, target):
                seen = ", ".join(MAY_SEE[folder]) or "nothing of ours"
                faults.append(f"{here}:{line}: {folder} may not see {target} (it may see {seen})")
    cycle = find_cycle(graph)
    if cycle:
        faults.append("headers include each other: " + " -> ".join(cycle))
    return len(files), faults


# Trees that must fail, with a word of the sentence expected, and one that must not.
MADE_UP = (
    ("base looks up", {"daemon/base/a.h": '#include "stream/b.h"\n', "daemon/stream/b.h": ""}, "may not see"),
    ("a stage sees a stage", {"daemon/decode/a.c": '#include "pixel/b.h"\n', "daemon/pixel/b.h": ""}, "may not see"),
    ("serve sees main", {"daemon/serve/a.c": '#include "main.h"\n', "daemon/main.h": ""}, "may not see"),
    ("stream sees serve", {"daemon/stream/a.c": '#include "serve/b.h"\n', "daemon/serve/b.h": ""}, "may not see"),
    ("by way of ..", {"proto/a.h": '#include "../daemon/base/b.h"\n', "daemon/base/b.h": ""}, "may not see"),
    ("by angle brackets", {"client/lib/a.c": "# include <base/b.h>\n", "daemon/base/b.h": ""}, "may not see"),
    ("a stage sees config", {"daemon/dataset/a.c": '#include "config.h"\n', "daemon/config.h": ""}, "may not see"),
    ("public header sees proto", {"include/penstock/a.h": '#include "proto/b.h"\n', "proto/b.h": ""}, "may not see"),
    ("unknown folder", {"daemon/attic/a.c": ""}, "not in the table"),
    ("includes a .c", {"proto/a.c": '#include "proto/b.c"\n', "proto/b.c": ""}, "only headers"),
    ("names nothing", {"proto/a.c": '#include "proto/gone.h"\n'}, "no file of this tree"),
    ("a cycle", {"proto/a.h": '#include "proto/b.h"\n', "proto/b.h": '#include "proto/a.h"\n'}, "each other"),
    ("in order", {"daemon/serve/a.c": '#include "stream/b.h"\n#include "config.h"\n#include <stdio.h>\n// #include "main.h"\n',
                  "daemon/config.h": "",
                  "daemon/stream/b.h": '/* #include "serve/c.h" */\n#include "base/d.h"\n', "daemon/base/d.h": ""}, None),
)


def self_test():
    for title, files, expected in MADE_UP:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            faults = check(Path(folder))[1]
        caught = not faults if expected is None else any(expected in fault for fault in faults)
        if not caught:
            sys.exit(f"layering: self-test '{title}' expected {expected!r}, got {faults}")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: layering.py ROOT")
    self_test()
    count, faults = check(Path(sys.argv[1]))
    for fault in faults:
        print(fault)
    if count == 0:
        sys.exit(f"layering: no sources below {sys.argv[1]}")
    print(f"layering: {count} files, {len(faults)} faults ({len(MADE_UP)} made-up trees judged rightly first)")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
