"""What the golden tests share: the committed listings in expected/, and how a listing is compared with what a build does.

A golden test pins what users and other programs rely on: bytes of batches, states, layouts, names, exit codes. It works from outside,
with built programs, public headers and the Python package, so that everything inside may move.

    streams.py --update        (PENSTOCK_BIN=build/release/bin) writes its listings in expected/ anew

Update only in a commit that changes such a thing on purpose and says so. A refactoring never updates: there a difference is an error."""
import importlib.util
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

EXPECTED = Path(__file__).resolve().parent / "expected"
UPDATE = "--update" in sys.argv
if UPDATE:
    sys.argv.remove("--update")
# Ranks, jobs and daemons of the caller must not reach the programs under test.
for _name in list(os.environ):
    if _name.startswith(("PENSTOCK_", "SLURM_", "TORCHELASTIC_", "OMPI_", "PMI_", "MASTER_")) or _name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        if _name not in ("PENSTOCK_BIN", "PENSTOCK_KERNELS") and not _name.startswith("PENSTOCK_TEST_"):
            del os.environ[_name]


def require(*modules):
    """Ends the program as skipped where a Python module is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            print(f"skipped: {sys.executable} has no {module}", flush=True)
            sys.exit(77)


def text_of(value):
    """JSON of which what is three levels deep is one line each: short enough to commit, and to read in a diff."""
    return lines_of(value, "") + "\n"


def lines_of(value, indent):
    if len(indent) == 3 or not value or not isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    within = indent + " "
    if isinstance(value, list):
        return "[\n" + ",\n".join(within + lines_of(member, within) for member in value) + f"\n{indent}]"
    members = (f"{within}{json.dumps(key)}: {lines_of(value[key], within)}" for key in sorted(value))
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"


def read(name):
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def differences(expected, got, where, grows):
    """(what is missing or different, what is new), each a list of sentences."""
    if isinstance(expected, dict) and isinstance(got, dict):
        wrong = [f"{where}/{key} is missing" for key in expected if key not in got]
        new = [f"{where}/{key}" for key in got if key not in expected]
        for key in expected.keys() & got.keys():
            more = differences(expected[key], got[key], f"{where}/{key}", grows)
            wrong, new = wrong + more[0], new + more[1]
        return wrong, new
    if isinstance(expected, list) and isinstance(got, list):
        wrong = [f"{where}: {value!r} is missing" for value in expected if value not in got]
        new = [f"{where}: {value!r}" for value in got if value not in expected]
        if not grows and not wrong and not new and expected != got:
            wrong = [f"{where}: the order differs"]
        return wrong, new
    return ([] if expected == got else [f"{where}: expected {expected!r}, got {got!r}"]), []


def compare(name, got, grows=False):
    """Compares `got` with expected/NAME.json. Where the listing `grows`, what is new passes and is printed."""
    if UPDATE:
        EXPECTED.mkdir(exist_ok=True)
        (EXPECTED / f"{name}.json").write_text(text_of(got), encoding="utf-8")
        print(f"wrote expected/{name}.json", flush=True)
        return
    wrong, new = differences(read(name), json.loads(json.dumps(got)), name, grows)
    if new and grows:
        print(f"new, and not in expected/{name}.json yet:", *sorted(new), sep="\n  ", flush=True)
    elif new:
        wrong += [f"{sentence} is not in the listing" for sentence in new]
    assert not wrong, f"{len(wrong)} differences from expected/{name}.json:\n  " + "\n  ".join(sorted(wrong)[:40])


def compare_kinds(name, got):
    """Compares what kinds() found: {document: {path: types}}. A path may be new, and what is not known may be null, with
    nothing below it."""
    wrong, new = [], []
    if UPDATE:
        return compare(name, got)
    for document, paths in read(name).items():
        there = got.get(document, {})
        unknown = tuple(f"{path}{sign}" for path, kind in there.items() if "null" in kind for sign in (".", "[]"))
        wrong += [f"{document}: {path} is missing" for path in paths if path not in there and not path.startswith(unknown)]
        new += [f"{document}: {path}" for path in there if path not in paths]
        for path in paths.keys() & there.keys():
            before, now = set(paths[path].split("|")) - {"null"}, set(there[path].split("|")) - {"null"}
            if before and now - before:
                wrong.append(f"{document}: {path} was {paths[path]}, is {there[path]}")
    if new:
        print(f"new, and not in expected/{name}.json yet:", *sorted(new), sep="\n  ", flush=True)
    assert not wrong, f"{len(wrong)} differences from expected/{name}.json:\n  " + "\n  ".join(sorted(wrong)[:40])
    return None


def kinds(value, where="", found=None):
    """The paths of a JSON value with the types seen there: {"streams[].slots": "number"}."""
    found = {} if found is None else found
    if isinstance(value, dict):
        kind = "object"
        for key, member in value.items():
            kinds(member, f"{where}.{key}" if where else key, found)
    elif isinstance(value, list):
        kind = "array"
        for member in value:
            kinds(member, f"{where}[]", found)
    else:
        kind = ("null" if value is None else "boolean" if isinstance(value, bool) else
                "string" if isinstance(value, str) else "number")
    found[where or "."] = joined(found.get(where or ".", kind), kind)
    return found


def joined(*types):
    """"null|number": every type once."""
    return "|".join(sorted({kind for one in types for kind in one.split("|")}))
