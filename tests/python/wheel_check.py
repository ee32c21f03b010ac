#!/usr/bin/env python3
"""Checks a built wheel, and runs its contents.

    wheel_check.py WHEEL               checks its name, size and formats, and what it needs from the system
    wheel_check.py WHEEL --run FOLDER  unpacks it like pip's --target; benchmarks and loads the images in FOLDER

The first form needs readelf and nm (binutils) and the Python packages abi3info and auditwheel:
scripts/wheel installs them and calls this script for each wheel that it makes. The command of a
wheel for another machine runs under qemu, with the cross compiler's C library (Debian:
libc6-arm64-cross). The second form needs only numpy and Python 3.9, on the wheel's own kind of
machine: old_debian.sh runs it on older systems.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Iterator, NoReturn, Optional, Tuple

LIBRARIES = {
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
# Python 3.9 has all of these; a later version added them, unchanged, to the stable ABI.
# old_debian.sh runs them with 3.9.
LATER = {
    "PyBuffer_FillInfo",
    "PyBuffer_Release",
    "PyObject_GetBuffer",
    "PyType_FromModuleAndSpec",
    "PyType_GetModule",
    "PyType_GetModuleState",
    "PyUnicode_AsUTF8AndSize",
}
KERNELS = (
    ("c", ""),
    ("avx2", "avx2 bmi2"),
    ("avx512", "bmi2 avx512f avx512bw avx512vl avx512dq avx512_vbmi2 avx512_vnni"),
)
NAME = re.compile(r"penstock-([0-9.]+)-cp39-abi3-(?:manylinux_(\d+)_(\d+)|linux)_(x86_64|aarch64)\.whl")
MEMBERS = (
    "penstock/__init__.py",
    "penstock/py.typed",
    "penstock/_penstock.pyi",
    "penstock/_penstock.abi3.so",
    "penstock/penstockd",
    "{}.data/scripts/penstock",
    "{}.data/scripts/penstockd",
    "{}.dist-info/licenses/LICENSE",
    "{}.dist-info/licenses/LICENSE.DejaVu",
)

# Formats whose libraries a build may lack, as `penstock --version` lists them. A wheel has them all.
FORMATS = {"images": ("WebP", "TIFF"), "unpacks": ("Zstandard",)}
LARGEST = 6_000_000

# What readelf calls the machine of a file.
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}

LOADER = """
import hashlib, sys
import penstock
digest, images_seen = hashlib.sha256(), 0
with penstock.Loader(sys.argv[1], batch_size=4, seed=1, dtype="uint8", device="cpu") as loader:
    for images, labels in loader:
        digest.update(images.tobytes())
        digest.update(labels.tobytes())
        images_seen += len(labels)
print(images_seen, digest.hexdigest())
"""


def fail(sentence: str) -> NoReturn:
    raise SystemExit(f"wheel_check: {sentence}")


def output(*command: object, env: Optional[dict[str, str]] = None) -> str:
    """Runs it in the root folder, which has no package and no build. Returns its output."""
    arguments = [str(word) for word in command]
    result = subprocess.run(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, env=env, cwd="/"
    )
    if result.returncode:
        fail(f"{' '.join(arguments)} ended with {result.returncode}:\n{result.stdout}")
    return result.stdout


# ---- what it needs


def version(text: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def elf_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            yield path


def runner(machine: str) -> Tuple[str, ...]:
    """What runs a program for that machine: nothing, or qemu with the machine's C library."""
    if machine == os.uname().machine:
        return ()
    qemu, libraries = f"qemu-{machine}", f"/usr/{machine}-linux-gnu"
    if not shutil.which(qemu) or not os.path.isdir(f"{libraries}/lib"):
        fail(f"the wheel is for {machine}: {qemu} and {libraries} are needed (scripts/install-deps wheel installs them)")
    return (qemu, "-L", libraries)


def check_machine(path: Path, name: str, machine: str) -> None:
    header = output("readelf", "--file-header", path)
    found = re.search(r"Machine: *(.*)", header)
    if not found or found[1].strip() != MACHINES[machine]:
        fail(f"{name} is for {found[1].strip() if found else 'no machine'}; the wheel's name promises {machine}")


def check_needs(path: Path, name: str, glibc: Tuple[int, ...]) -> None:
    dynamic = output("readelf", "--wide", "--dynamic", path)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    if not needed <= LIBRARIES:
        fail(f"{name} needs {', '.join(sorted(needed - LIBRARIES))}: everything but libc has to be linked in")
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        fail(f"{name} has a path of its own for libraries:\n{dynamic}")
    symbols = output("readelf", "--wide", "--version-info", path)
    versions = {version(found) for found in re.findall(r"\bGLIBC_([0-9.]+)", symbols)}
    newest = max(versions)
    print(f"{name}: {path.stat().st_size} bytes, GLIBC_{'.'.join(map(str, newest))}")
    if newest > glibc:
        fail(f"{name} has symbols of glibc {newest}; the wheel's name promises {glibc}")


def check_python_symbols(path: Path, name: str) -> None:
    try:
        from abi3info import DATAS, FUNCTIONS
        from abi3info.models import PyVersion, Symbol
    except ImportError:
        fail("the Python package abi3info is needed (build/wheel/venv/bin/python has it, once scripts/wheel has run)")
    symbols = {line.split()[-1] for line in output("nm", "-D", "--undefined-only", path).splitlines()}
    symbols = {symbol for symbol in symbols if re.match(r"_?Py", symbol)}
    if not symbols:
        fail(f"{name} uses nothing of Python: that is no extension")
    for symbol in sorted(symbols - LATER):
        entry = FUNCTIONS.get(Symbol(symbol)) or DATAS.get(Symbol(symbol))
        if entry is None:
            fail(f"{name} uses {symbol}, which is not in Python's stable ABI")
        if entry.added > PyVersion(3, 9):
            fail(f"{name} uses {symbol}, which the stable ABI has since {entry.added}: Python 3.9 may lack it")
    print(f"{name}: {len(symbols)} symbols of Python's stable ABI")


def check_formats(said: str) -> None:
    lines = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    for kind, names in FORMATS.items():
        listed = [entry.split(" (")[0] for entry in lines.get(kind, "").split(", ")]
        for name in names:
            if name not in listed:
                fail(f"penstock --version does not list {name}: scripts/wheel has to link its library in. It said:\n{said}")
    print("; ".join(f"{kind}: {lines[kind]}" for kind in FORMATS))


def check_once(wheel: Path) -> None:
    """A large file that is in the wheel twice costs its size again."""
    names: dict[Tuple[int, int], str] = {}
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            same = names.setdefault((member.file_size, member.CRC), member.filename)
            if same != member.filename and member.file_size > 100_000:
                fail(f"{wheel.name} has the same bytes twice: {same} and {member.filename}")


def judge(wheel: Path, folder: Path, stem: str, glibc: Tuple[int, ...], machine: str) -> None:
    size = wheel.stat().st_size
    if size > LARGEST:
        fail(f"{wheel.name} has {size:,} bytes; a wheel has at most {LARGEST:,}")
    check_once(wheel)
    command = folder / f"{stem}.data/scripts/penstock"
    command.chmod(0o755)
    check_formats(output(*runner(machine), command, "--version"))
    for path in elf_files(folder):
        check_machine(path, str(path.relative_to(folder)), machine)
        check_needs(path, str(path.relative_to(folder)), glibc)
    extension = folder / "penstock/_penstock.abi3.so"
    check_python_symbols(extension, str(extension.relative_to(folder)))
    verdict = " ".join(output(sys.executable, "-m", "auditwheel", "show", wheel).split())
    tag = wheel.name[: -len(".whl")].split("-")[-1]
    if f'"{tag}"' not in verdict:
        fail(f"auditwheel does not find {tag}: {verdict}")
    print(f"auditwheel: {tag}")


# ---- running it


def known_kernels() -> list[str]:
    """The names for PENSTOCK_KERNELS of the features that this processor must be found to have."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    return [name for name, needed in KERNELS if flags.issuperset(needed.split())]


def load(folder: Path, data: str, environment: dict[str, str], kernels: str) -> str:
    with tempfile.TemporaryDirectory() as runtime:
        chosen = {**environment, "XDG_RUNTIME_DIR": runtime, "PENSTOCK_KERNELS": kernels}
        return output(sys.executable, "-c", LOADER, data, env=chosen).strip()


def check_word(what: str, said: str, word: str) -> None:
    lines = [line for line in said.splitlines() if word in line]
    if not lines:
        fail(f"{what} should say that it was built without ({word}); it said:\n{said}")
    print(f"{what}: {lines[0].strip()}")


def check_left_out(scripts: Path, environment: dict[str, str]) -> None:
    """Features that a portable wheel leaves out report that when they are used."""
    socket = f"{environment['HOME']}/socket"
    said = output(
        scripts / "penstockd", "--socket", socket, "--http", "9470", "--idle-exit", "1", env=environment
    )
    check_word("penstockd --http 9470", said, "PENSTOCK_HTTP=OFF")
    check_word("penstockd without libseccomp", said, "PENSTOCK_SECCOMP=OFF")
    supervised = {**environment, "NOTIFY_SOCKET": f"{environment['HOME']}/notify"}
    said = output(scripts / "penstockd", "--socket", socket, "--idle-exit", "1", env=supervised)
    check_word("penstockd under systemd", said, "PENSTOCK_SYSTEMD=OFF")
    try:
        master, slave = pty.openpty()
    except OSError as error:
        print(f"penstock top: not looked at: there is no terminal ({error})")
        return
    try:
        top = subprocess.run(
            [scripts / "penstock", "top", "--socket", socket],
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
            text=True,
        )
    finally:
        os.close(slave)
        os.close(master)
    check_word("penstock top", top.stderr, "PENSTOCK_TOP=OFF")


def run(folder: Path, stem: str, data: str, portable: bool) -> None:
    scripts = (folder / f"{stem}.data/scripts").rename(folder / "bin")
    for program in ("penstock", "penstockd"):
        (scripts / program).chmod(0o755)
    (folder / "penstock/penstockd").chmod(0o755)
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "HOME": home,
            "XDG_RUNTIME_DIR": home,
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        said = output(scripts / "penstock", "--version", env=environment)
        print(said.strip())
        if portable:
            check_formats(said)
        bench = output(scripts / "penstock", "bench", data, "--seconds", "2", "--batch-size", "4", env=environment)
        print(bench.strip())
        digests = {kernels: load(folder, data, environment, kernels) for kernels in known_kernels()}
        print(f"loader: {digests[KERNELS[0][0]]} with kernels {', '.join(digests)}")
        if len(set(digests.values())) != 1:
            fail(f"the same images differ by kernels: {digests}")
        if portable:
            check_left_out(scripts, environment)


def unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--run", metavar="FOLDER", help="images to benchmark and load")
    arguments = parser.parse_args()
    match = NAME.fullmatch(arguments.wheel.name)
    if not match:
        fail(f"{arguments.wheel.name} is not named penstock-VERSION-cp39-abi3-PLATFORM.whl")
    stem = f"penstock-{match[1]}"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        unpack(arguments.wheel, folder)
        for member in MEMBERS:
            if not (folder / member.format(stem)).is_file():
                fail(f"{arguments.wheel.name} lacks {member.format(stem)}")
        if arguments.run:
            run(folder, stem, os.path.abspath(arguments.run), bool(match[2]))
        elif match[2]:
            judge(arguments.wheel.resolve(), folder, stem, (int(match[2]), int(match[3])), match[4])
        else:
            fail(f"{arguments.wheel.name} is for this system alone: nothing is to be judged (scripts/wheel makes others)")


if __name__ == "__main__":
    main()
