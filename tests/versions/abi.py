#!/usr/bin/env python3
"""The libraries' binary interface beside that of earlier releases: libabigail's abidiff compares what it reads out of their debugging
information with the descriptions in release-*/.

    abi.py LIBRARY...                 compares; also tests that breaks are found, with descriptions that are broken on purpose
    abi.py --record RELEASE LIBRARY...  writes the descriptions release-RELEASE/NAME.abi, after a release

Programs that were compiled with a release must run with these libraries: abi.suppr has what may differ nevertheless, and why. Needs types
in the debugging information (penstock_types_for_tests in cmake/). The descriptions are of gcc on x86-64."""
import copy
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import harness  # noqa: E402

# Bits of abidiff's exit status.
ERROR, USAGE, CHANGE, INCOMPATIBLE = 1, 2, 4, 8


def require():
    """Says why nothing can be compared here, by ending the test as skipped."""
    for program in ("abidw", "abidiff"):
        if not shutil.which(program):
            raise harness.Skip(f"{program} is missing; Debian's package is abigail-tools")
    if platform.machine() != "x86_64":
        raise harness.Skip(f"the descriptions are of x86-64, and this is {platform.machine()}")


def release_files(name):
    """Descriptions of this library in releases, the latest last."""
    return sorted(HERE.glob(f"release-*/{name}.abi"), key=lambda path: [int(part) for part in path.parent.name[len("release-"):].split(".")])


def name_of(library):
    return Path(library).name.split(".so")[0]


def describe(library, headers=ROOT / "include/penstock"):
    """abidw's description: what the headers tell, without places in files."""
    command = ["abidw", "--headers-dir", headers, "--drop-private-types", "--no-corpus-path", "--no-show-locs", "--no-comp-dir-path",
               "--no-elf-needed", "--exported-interfaces-only", "--drop-undefined-syms", library]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "<class-decl" in text, f"{library} has no types in its debugging information (see penstock_types_for_tests in cmake/)"
    return re.sub(r" path='[^']*/((?:client|proto)/[^']*)'", r" path='\1'", text)


def differences(old, new):
    """(abidiff's exit status, what it says) of two files with descriptions."""
    done = subprocess.run(["abidiff", "--suppressions", HERE / "abi.suppr", "--no-added-syms", old, new], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert not done.returncode & (ERROR | USAGE), f"abidiff: {done.stdout}"
    return done.returncode, done.stdout


def layouts(path):
    """{struct: (its size in bits, [(offset in bits, name, type) of each field])}."""
    root = tree.parse(path).getroot()
    kinds = {node.get("id"): node for node in root.iter() if node.get("id")}

    def words(number):
        node = kinds[number]
        inner = words(node.get("type-id")) if node.get("type-id") and node.tag != "typedef-decl" else ""
        own = [node.tag, node.get("name") or "", node.get("const") or "", node.get("size-in-bits") or "" if node.tag == "array-type-def" else ""]
        return " ".join(word for word in (*own, inner) if word)

    def field(member):
        variable = member.find("var-decl")
        return int(member.get("layout-offset-in-bits")), variable.get("name"), words(variable.get("type-id"))

    return {node.get("name"): (int(node.get("size-in-bits")), [field(member) for member in fields(node)])
            for node in root.iter("class-decl") if node.get("size-in-bits")}


def check(old, new, what):
    """Fails where a program that was compiled with `old` could not run with `new`. abidiff's suppressions hide all that has happened to a
    struct which has grown at its end, so these structs are compared here as well: what `old` had must be there, in its place."""
    status, said = differences(old, new)
    assert status == 0, f"{what}: a program that was compiled with it would break:\n{said}"
    before, now = layouts(old), layouts(new)
    for name in sorted(before.keys() & now.keys()):
        (size, then), (new_size, has) = before[name], now[name]
        assert has[:len(then)] == then, f"{what}: struct {name} had {then} and has {has}"
        if not then or then[0][1] != "size":
            assert size == new_size, f"{what}: struct {name}, which does not begin with its size, had {size} bits and has {new_size}"


def test_libraries():
    """Each library against each release that is described."""
    require()
    assert LIBRARIES, "no library was named"
    for library in LIBRARIES:
        releases = release_files(name_of(library))
        assert releases, f"no release-*/{name_of(library)}.abi"
        with tempfile.NamedTemporaryFile("w", suffix=".abi") as new:
            new.write(describe(library))
            new.flush()
            for old in releases:
                check(old, new.name, f"{name_of(library)} against {old.parent.name}")
                print(f"{name_of(library)}: programs of {old.parent.name} can run with it")


# ---- the test of the test: descriptions that are changed in one place


def fields(node):
    return [member for member in node if member.tag == "data-member"]


def struct(root, name):
    found = [node for node in root.iter("class-decl") if node.get("name") == name and node.get("size-in-bits")]
    assert found, f"no struct {name}"
    return found


def remove_function(root, name):
    """As if the library did not have it any more."""
    for parent in root.iter():
        for node in [node for node in parent if node.get("name") == name and node.tag in ("elf-symbol", "function-decl")]:
            parent.remove(node)


def swap(root, name, one, other):
    """Two fields have each other's place."""
    for node in struct(root, name):
        places = {member.find("var-decl").get("name"): member for member in fields(node)}
        first, second = places[one], places[other]
        a, b = first.get("layout-offset-in-bits"), second.get("layout-offset-in-bits")
        first.set("layout-offset-in-bits", b)
        second.set("layout-offset-in-bits", a)
        node[:] = sorted(fields(node), key=lambda member: int(member.get("layout-offset-in-bits"))) + [c for c in node if c.tag != "data-member"]


def insert(root, name, at, word=64):
    """A new field of one word before field number `at`; those behind it move."""
    for node in struct(root, name):
        members = fields(node)
        size = int(node.get("size-in-bits"))
        place = int(members[at].get("layout-offset-in-bits")) if at < len(members) else size
        for member in members[at:]:
            member.set("layout-offset-in-bits", str(int(member.get("layout-offset-in-bits")) + word))
        new = copy.deepcopy(members[0])
        new.set("layout-offset-in-bits", str(place))
        new.find("var-decl").set("name", "added")
        node.insert(at, new)
        node.set("size-in-bits", str(size + word))


def retype(root, name, field, like):
    """A field has the type of another one."""
    for node in struct(root, name):
        kinds = {member.find("var-decl").get("name"): member.find("var-decl") for member in fields(node)}
        assert kinds[field].get("type-id") != kinds[like].get("type-id")
        kinds[field].set("type-id", kinds[like].get("type-id"))


def drop_field(root, name, number):
    for node in struct(root, name):
        node.remove(fields(node)[number])


def grow(root, name):
    insert(root, name, 1 << 20)


BREAKS = {
    "a function is gone": lambda root: remove_function(root, "penstock_batch_release"),
    "two fields of penstock_batch have changed places": lambda root: swap(root, "penstock_batch", "epoch", "batch"),
    "a field in the middle of penstock_options": lambda root: insert(root, "penstock_options", 4),
    "penstock_options has grown, and lost a field": lambda root: (drop_field(root, "penstock_options", 3), grow(root, "penstock_options")),
    "penstock_options has grown, and two fields have changed places":
        lambda root: (swap(root, "penstock_options", "source", "labels"), grow(root, "penstock_options")),
    "penstock_batch, which has no size of its own, has grown": lambda root: grow(root, "penstock_batch"),
    "penstock_stream_info, which the library fills, has grown": lambda root: grow(root, "penstock_stream_info"),
    "a field of penstock_batch has another type": lambda root: retype(root, "penstock_batch", "epoch", "labels"),
}
ALLOWED = {
    "nothing has changed": lambda root: None,
    "penstock_options has grown": lambda root: grow(root, "penstock_options"),
    "penstock_mix_options has grown twice": lambda root: (grow(root, "penstock_mix_options"), grow(root, "penstock_mix_options")),
}


def changed(path, change, to):
    root = tree.parse(path)
    change(root.getroot())
    root.write(to)
    return to


def verdict(old, new):
    try:
        check(old, new, "a changed description")
    except AssertionError as fault:
        return str(fault)
    return None


def test_breaks_are_found():
    """Descriptions with one fault each are refused, and those that the policy allows are not."""
    require()
    old = release_files("libpenstock")[-1]
    with tempfile.TemporaryDirectory() as folder:
        new = Path(folder) / "changed.abi"
        missed = [name for name, change in BREAKS.items() if verdict(old, changed(old, change, new)) is None]
        refused = [f"{name}: {said}" for name, change in ALLOWED.items() if (said := verdict(old, changed(old, change, new)))]
    assert not missed, f"not found: {'; '.join(missed)}"
    assert not refused, f"refused, though it is allowed: {'; '.join(refused)}"
    print(f"{len(BREAKS)} breaks are found, {len(ALLOWED)} changes are allowed")


def record(release, libraries):
    folder = HERE / f"release-{release}"
    folder.mkdir(exist_ok=True)
    for library in libraries:
        path = folder / f"{name_of(library)}.abi"
        path.write_text(describe(library), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        if len(sys.argv) < 4:
            sys.exit(__doc__)
        record(sys.argv[2], sys.argv[3:])
        sys.exit()
    LIBRARIES, sys.argv[1:] = sys.argv[1:], []
    harness.run_tests(globals())
