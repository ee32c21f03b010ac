#!/usr/bin/env python3
"""Writes the fixtures of LMDB with py-lmdb, and what a cursor of py-lmdb reads from them.

    make.py      by hand, with lmdb, Pillow and numpy

Caffe's Datum is written by hand as caffe.proto has it. liblmdb takes the page size of the machine (4096 on x86-64); databases with
other sizes are put together here, page by page; liblmdb reads back the one of 16 KiB.
"""

import io
import json
import lzma
import pickle
import shutil
import struct
import zlib
from pathlib import Path

import lmdb
import numpy as np
from PIL import Image

HERE = Path(__file__).parent


def picture(seed, kind="PNG", size=(8, 4)):
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1] // 4, size[0] // 4, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).resize(size).save(out, kind)
    return out.getvalue()


def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def datum(data=b"", label=None, shape=(), encoded=None, floats=()):
    """shape: channels, height, width."""
    out = b"".join(varint(number << 3) + varint(value) for number, value in enumerate(shape, 1))
    out += varint(4 << 3 | 2) + varint(len(data)) + data if data else b""
    out += varint(5 << 3) + varint(label) if label is not None else b""
    out += b"".join(varint(6 << 3 | 5) + struct.pack("<f", value) for value in floats)
    return out + (varint(7 << 3) + varint(encoded) if encoded is not None else b"")


def write(name, pairs, subdir=True, drop=(), compact=True):
    """`drop`: keys that are deleted afterwards."""
    path = HERE / name
    scratch = HERE / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    env = lmdb.open(str(scratch / "a"), map_size=1 << 24, subdir=False, lock=False)
    db = env.open_db(None)
    for key, value in pairs:
        with env.begin(write=True) as txn:
            txn.put(key, value, db=db)
    with env.begin(write=True) as txn:
        for key in drop:
            txn.delete(key, db=db)
    if compact:
        env.copy(str(scratch / "b"), compact=True)
    env.close()
    found = scratch / ("b" if compact else "a")
    if subdir:
        path.mkdir(exist_ok=True)
    shutil.copy(found, path / "data.mdb" if subdir else path)
    shutil.rmtree(scratch)


def cursor(name, subdir=True):
    path = HERE / name
    env = lmdb.open(str(path), subdir=subdir, readonly=True, lock=False)
    with env.begin() as txn:
        pairs = [(bytes(key), bytes(value)) for key, value in txn.cursor()]
    env.close()
    return pairs


def sample(key, value, label=None, name=None):
    text = name or key.decode()
    return {"key": text, "size": len(value), "crc32": zlib.crc32(value), "label": label}


def page(number, flags, nodes, size):
    """One page: nodes are bytes; offsets count from the end of the page."""
    out = bytearray(size)
    at, pointers = size, b""
    for node in nodes:
        at -= len(node) + len(node) % 2
        out[at:at + len(node)] = node
        pointers += struct.pack("<H", at)
    struct.pack_into("<QHHHH", out, 0, number, 0, flags, 16 + len(pointers), at & 0xffff)
    out[16:16 + len(pointers)] = pointers
    return bytes(out)


def leaf(key, value, flags=0):
    return struct.pack("<IHH", len(value), flags, len(key)) + key + value


def branch(key, number):
    return struct.pack("<IHH", number & 0xffffffff, number >> 32, len(key)) + key


def meta(number, size, root, last, entries, depth, transaction, flags=0, version=1):
    out = bytearray(size)
    struct.pack_into("<QHHI", out, 0, number, 0, 8, 0)
    struct.pack_into("<IIQQ", out, 16, 0xbeefc0de, version, 0, size * 1000)
    struct.pack_into("<IHHQQQQQ", out, 40, size, 8, 0, 0, 0, 0, 0, 2**64 - 1)
    struct.pack_into("<IHHQQQQQ", out, 88, 0, flags, depth, 1, 1, 0, entries, root)
    struct.pack_into("<QQ", out, 136, last, transaction)
    return bytes(out)


def assemble(name, size, pages, root, entries, depth, **more):
    last = 1 + len(pages)
    whole = meta(0, size, root, last, entries, depth, 4, **more) + meta(1, size, root, last, entries, depth, 3, **more)
    (HERE / name).write_bytes(whole + b"".join(pages))


def main():
    for old in HERE.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
        elif old.suffix in (".bin", ".xz", ".bin-lock"):
            old.unlink()
    expected = {}

    def refuse(name, fault):
        expected[name] = {"fault": fault}

    # LSUN: inline values, a WebP in pages of its own, keys of which some are not text.
    big = picture(1, "PNG", (64, 64)) + b"\0" * 5000
    pairs = [(b"b/1.jpg", picture(2, "JPEG")), (b"a", picture(3, "WEBP", (16, 16))), (b"\xff\0", picture(4)), (b"/x", picture(5)),
             ("ä".encode(), picture(6)), (b"big", big), (b"__len__", b"\x80\x04K\x05."), (b"__keys__", b"anything")]
    write("lsun", pairs)
    read = [(key, value) for key, value in cursor("lsun") if not key.startswith(b"__")]
    odd = {b"\xff\0": "ff00", b"/x": "2f78"}
    expected["lsun"] = {"classes": None, "samples": [sample(key, value, name=odd.get(key)) for key, value in read]}
    expected["lsun/data.mdb"] = expected["lsun"]
    write("one.bin", pairs[:3], subdir=False)
    expected["one.bin"] = {"classes": None, "samples": [sample(key, value, name=odd.get(key)) for key, value in cursor("one.bin", False)]}
    # Several levels, deleted pages, many transactions.
    many = [(b"%04d" % i + b"k" * 300, picture(i % 3)) for i in range(40)]
    write("many.bin", many, subdir=False, compact=False, drop=[key for key, _ in many[3:30]])
    expected["many.bin"] = {"classes": None, "samples": [sample(key, value) for key, value in cursor("many.bin", False)]}
    nodes = [leaf(struct.pack("=Q", i), picture(i)) for i in (3, 255, 256, 70000)]
    assemble("integers.bin", 1024, [page(2, 2, nodes, 1024)], 2, 4, 1, flags=8)
    expected["integers.bin"] = {"classes": None, "samples": [
        sample(b"", picture(i), name=str(i)) for i in (3, 255, 256, 70000)]}
    # Caffe: encoded images; raw pixels of one channel.
    write("caffe", [(b"%08d_c.png" % i, datum(picture(i), label=i * 1000, shape=(3, 4, 8), encoded=1)) for i in range(3)])
    expected["caffe"] = {"classes": None, "samples": [sample(b"%08d_c.png" % i, picture(i), i * 1000) for i in range(3)]}
    expected["caffe # no labels"] = {"classes": None, "options": {"labels": "none"},
                                     "samples": [sample(b"%08d_c.png" % i, picture(i)) for i in range(3)]}
    gray = np.arange(28 * 28, dtype=np.uint8).tobytes()
    write("gray.bin", [(b"%05d" % i, datum(gray, label=i, shape=(1, 28, 28))) for i in range(2)], subdir=False)
    delivered = b"P5 %5u %5u  255\n" % (28, 28) + gray
    expected["gray.bin"] = {"classes": None, "samples": [sample(b"%05d" % i, delivered, i) for i in range(2)]}
    # Other sizes of pages; several branch pages; a value in pages of its own.
    small = [(b"%02d" % i, picture(i)) for i in range(4)]
    for size in (512, 16384, 65536):
        leaves = [page(3 + i, 2, [leaf(*pair)], size) for i, pair in enumerate(small)]
        top = page(2, 1, [branch(b"" if i == 0 else key, 3 + i) for i, (key, _) in enumerate(small)], size)
        assemble(f"page{size}.bin", size, [top, *leaves], 2, 4, 2)
        expected[f"page{size}.bin"] = {"classes": None, "samples": [sample(key, value) for key, value in small]}
    assert cursor("page16384.bin", False) == small
    good = (HERE / "page512.bin").read_bytes()

    def change(name, at, data, source=good):
        whole = bytearray(source)
        whole[at:at + len(data)] = data
        (HERE / name).write_bytes(whole)

    # Refused.
    write("empty.bin", [], subdir=False)
    refuse("empty.bin", "no images among 0 values")
    write("pickle.bin", [(b"0", pickle.dumps((b"x", 3), 4))], subdir=False)
    refuse("pickle.bin", "is a Python pickle, which penstock never reads")
    write("text.bin", [(b"0", picture(0)), (b"num-samples", b"1")], subdir=False)
    refuse("text.bin", "the value of key num-samples is neither an image nor a Datum of Caffe")
    write("bgr.bin", [(b"0", datum(gray[:12], label=1, shape=(3, 2, 2)))], subdir=False)
    refuse("bgr.bin", "is a Datum of raw pixels in the order blue, green, red")
    write("shape.bin", [(b"0", datum(gray[:12], label=1, shape=(1, 2, 2)))], subdir=False)
    refuse("shape.bin", "is a Datum of 12 bytes, but with 1 channels, height 2 and width 2")
    write("floats.bin", [(b"0", datum(label=1, shape=(1, 1, 2), floats=(1, 2)))], subdir=False)
    refuse("floats.bin", "is a Datum without bytes of an image")
    write("minus.bin", [(b"0", datum(picture(0), label=-1, encoded=1))], subdir=False)
    refuse("minus.bin", "its label is -1: expected a class from 0 to 2147483647")
    write("mixture.bin", [(b"0", datum(picture(0), label=1, encoded=1)), (b"1", picture(1))], subdir=False)
    refuse("mixture.bin", "has no label, but the samples before it have one")
    env = lmdb.open(str(HERE / "named.bin"), map_size=1 << 20, subdir=False, lock=False, max_dbs=2)
    with env.begin(write=True) as txn:
        txn.put(b"k", picture(0), db=env.open_db(b"train", txn))
    env.close()
    refuse("named.bin", "holds a named database (train)")
    change("dupsort.bin", 92, b"\4")
    refuse("dupsort.bin", "several values for a key (MDB_DUPSORT)")
    change("depth.bin", 94, b"\3")
    refuse("depth.bin", "expected a branch page of the tree")
    # The second leaf's number in the branch becomes the first's.
    node = 1024 + struct.unpack_from("<H", good, 1024 + 18)[0]
    change("again.bin", node, b"\3")
    refuse("again.bin", "a key does not come after the one before it")
    change("circle.bin", node, b"\2")
    refuse("circle.bin", "expected a leaf page of the tree")
    change("beyond.bin", node, b"\xff")
    refuse("beyond.bin", "names a page that does not exist")
    change("number.bin", 3 * 512, b"\7")
    refuse("number.bin", "expected a leaf page of the tree")
    change("nodes.bin", 3 * 512 + 12, b"\xff\xff")
    refuse("nodes.bin", "the page's list of nodes is beyond the page")
    change("node.bin", 3 * 512 + 16, b"\xff\x01")
    refuse("node.bin", "a node is beyond its page")
    at = 3 * 512 + struct.unpack_from("<H", good, 3 * 512 + 16)[0]
    change("long.bin", at, b"\xff\xff")
    refuse("long.bin", "a value is beyond its page")
    change("overflow.bin", at + 4, b"\1")
    refuse("overflow.bin", "a value is in a page that does not exist")
    change("entries.bin", 120, b"\5")
    refuse("entries.bin", "is said to have 5 keys, but has 4")
    change("version.bin", 20, b"\2")
    refuse("version.bin", "has version 2 of the format")
    change("pages.bin", 40, b"\1")
    refuse("pages.bin", "the pages of this LMDB database are said to have 513 bytes")
    change("second.bin", 512 + 16, b"x")
    refuse("second.bin", "byte 512: expected a meta page of an LMDB database")
    (HERE / "bits32.bin").write_bytes(good[4:])
    refuse("bits32.bin", "was written on a 32-bit machine")
    change("endian.bin", 16, b"\xbe\xef\xc0\xde")
    refuse("endian.bin", "was written on a big-endian machine")
    (HERE / "cut.bin").write_bytes(good[:4 * 512])
    refuse("cut.bin", "but the file ends at byte 2048")
    (HERE / "cut-meta.bin").write_bytes(good[:600])
    refuse("cut-meta.bin", "but the file ends at byte 600")
    # Databases are mostly zeros: run.py unpacks them.
    for file in [*HERE.glob("*.bin"), *HERE.glob("*/data.mdb")]:
        file.with_name(file.name + ".xz").write_bytes(lzma.compress(file.read_bytes(), preset=9))
        file.unlink()
    lines = []
    for name, want in expected.items():
        text = json.dumps(want, ensure_ascii=False)
        lines.append(f"{json.dumps(name)}: " + text.replace('[{"key"', '[\n  {"key"').replace('}, {"key"', '},\n  {"key"'))
    (HERE / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
