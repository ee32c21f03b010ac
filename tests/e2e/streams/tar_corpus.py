#!/usr/bin/env python3
"""Compares the members that penstock sees in odd tars with those that Python's tarfile sees.

usage: tar_corpus.py TAR_LIST CORPUS

TAR_LIST is the tool of tests/e2e/streams/tar_list.c. Regular members must agree in name, size and place; sparse ones in name.
Besides the corpus, tars of every format that tarfile writes are made and compared, and one is cut at every length:
where tarfile ends quietly, penstock must fail, except at the boundaries of members. Ends with 77 (skipped) when there
is no corpus."""

import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile

# Files on which the two differ on purpose: name -> why.
DIFFERENT = {
    "tar-split__pax-nul-path.tar": "a name ends at a zero byte, as in every other header; tarfile keeps the byte",
}


def ours(tool, path):
    """(members, fault): members are (kind, name, size, offset); fault is None or a sentence."""
    done = subprocess.run([tool, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{path}: tar_list ended with {done.returncode}: {done.stderr!r}")
    members = []
    for line in done.stdout.decode("ascii").splitlines():
        kind, name, size, offset = line.split("\t")
        name = re.sub(r"\\x(..)", lambda m: chr(int(m.group(1), 16)), name).encode("latin-1")
        if kind != "other":
            members.append((kind, name, int(size), int(offset)))
    return members, done.stderr.decode() if done.returncode else None


def theirs(path):
    try:
        with tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape") as tar:
            return [("sparse" if m.issparse() else "file", m.name.encode("utf-8", "surrogateescape"), m.size, m.offset_data)
                    for m in tar.getmembers() if m.isreg()], None
    except (tarfile.TarError, EOFError, ValueError) as error:
        return [], str(error)


def comparable(members):
    """Sizes and places of sparse members mean different things: penstock does not read them."""
    return [m if m[0] == "file" else m[:2] for m in members]


def compare(tool, path):
    """None, or what differs."""
    mine, fault = ours(tool, path)
    python, error = theirs(path)
    if (fault is None) != (error is None):
        return f"penstock says {fault!r}, tarfile says {error!r}"
    if fault is None and comparable(mine) != comparable(python):
        return f"penstock lists {mine}, tarfile lists {python}"
    if fault is not None and path not in fault:
        return f"the fault does not name the file: {fault!r}"
    return None


def make(path, tar_format):
    names = ["a.jpg", "dir/b.jpg", "d" * 90 + "/" + "e" * 90 + "/c.jpg", "n" * 255, "x/" * 150 + "long.jpg", "höstål.jpg",
             "tab\tand\nnewline.jpg", "trailing space .jpg"]
    with tarfile.open(path, "w", format=tar_format) as tar:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size = number * 300
            info.mtime = 1.5 if tar_format == tarfile.PAX_FORMAT else 1
            try:
                tar.addfile(info, io.BytesIO(bytes(info.size)))
            except ValueError:  # ustar has no room for the longest names
                pass
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "t" * 140 if tar_format != tarfile.USTAR_FORMAT else "t"
        tar.addfile(link)


def written(tool, folder):
    bad = []
    for tar_format in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = os.path.join(folder, f"format-{tar_format}.tar")
        make(path, tar_format)
        difference = compare(tool, path)
        if difference:
            bad.append(f"{path}: {difference}")
        bad += cut(tool, folder, path)
    return bad


def cut(tool, folder, path):
    """Every length around the boundaries: only whole members may be taken for an archive."""
    with open(path, "rb") as file:
        data = file.read()
    whole, _ = ours(tool, path)
    ends = {(offset + size + 511) // 512 * 512 for _, _, size, offset in whole} | {0}
    last = max(ends)
    lengths = {n for n in range(0, last + 1024, 512)} | {n + d for n in range(512, last + 1024, 512) for d in (-1, 1, 255)}
    bad = []
    short = os.path.join(folder, "cut.tar")
    for length in sorted(lengths):
        with open(short, "wb") as file:
            file.write(data[:length])
        members, fault = ours(tool, short)
        if fault is None and members != [m for m in whole if m[3] + m[2] <= length]:
            bad.append(f"{path} cut to {length}: {members}")
        if fault is None and length % 512:
            bad.append(f"{path} cut to {length} was taken for whole")
    return bad


def main():
    tool, corpus = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        bad = written(tool, folder)
    if not os.path.isdir(corpus):
        print(f"no corpus at {corpus}: only the tars made here were compared")
        for line in bad:
            print(line)
        return 1 if bad else 77
    names = sorted(os.listdir(corpus))
    for name in names:
        difference = compare(tool, os.path.join(corpus, name))
        if difference and name not in DIFFERENT:
            bad.append(f"{name}: {difference}")
        if not difference and name in DIFFERENT:
            bad.append(f"{name}: no longer differs; the table says: {DIFFERENT[name]}")
    for line in bad:
        print(line)
    print(f"{len(names)} files of the corpus, {len(DIFFERENT)} of them different on purpose, {len(bad)} bad")
    return 1 if bad else 0


sys.exit(main())
