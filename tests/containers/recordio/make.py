#!/usr/bin/env python3
"""Writes RecordIO files with MXNet, and what MXNet's readers and InsightFace's rule find in them.

Run by hand, with a Python that has mxnet 1.9 and NumPy below 1.24. What MXNet reads is compared with a reader of this file, which
follows the description of the format in dmlc-core (src/recordio.cc).
"""

import json
import struct
import sys
import zlib
from pathlib import Path

import numpy
from mxnet import recordio

HERE = Path(__file__).parent
MAGIC = struct.pack("<I", 0xced7230a)


def png(seed, side=8):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((seed * 37 + y * 11 + x * 5 + c * 71) % 256 for x in range(side) for c in range(3))
                    for y in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write(name, records, idx=True):
    """records: (key, IRHeader, image)."""
    if not idx:
        out = recordio.MXRecordIO(str(HERE / f"{name}.rec"), "w")
        for _, header, image in records:
            out.write(recordio.pack(header, image))
    else:
        out = recordio.MXIndexedRecordIO(str(HERE / f"{name}.idx"), str(HERE / f"{name}.rec"), "w")
        for key, header, image in records:
            out.write_idx(key, recordio.pack(header, image))
    out.close()


def raw_records(path):
    """The records of a file, without MXNet."""
    data, at, record = path.read_bytes(), 0, None
    while at < len(data):
        assert data[at:at + 4] == MAGIC
        coded, = struct.unpack_from("<I", data, at + 4)
        part, size = coded >> 29, coded & (1 << 29) - 1
        body = data[at + 8:at + 8 + size]
        record = body if part in (0, 1) else record + MAGIC + body
        if part in (0, 3):
            yield record
        at += 8 + (size + 3 & ~3)


def sample(key, name, header, image, label):
    return {"key": key, "name": name, "size": len(image), "crc32": zlib.crc32(image), "label": label}


def label_of(header, rows):
    values = [float(value) for value in numpy.atleast_1d(header.label)]
    return values if rows else int(values[0])


def indexed(name, rows=False):
    """As RecordFileDataset of gluon: the keys in the order of their lines."""
    reader = recordio.MXIndexedRecordIO(str(HERE / f"{name}.idx"), str(HERE / f"{name}.rec"), "r")
    found = []
    for key in reader.keys:
        header, image = recordio.unpack(reader.read_idx(key))
        found.append(sample(str(key), str(key), header, image, label_of(header, rows)))
    return found


def plain(name, rows=False):
    reader = recordio.MXRecordIO(str(HERE / f"{name}.rec"), "r")
    found = []
    for number, raw in enumerate(raw_records(HERE / f"{name}.rec")):
        record = reader.read()
        assert record == raw
        header, image = recordio.unpack(record)
        found.append(sample(str(header.id), str(number), header, image, label_of(header, rows)))
    assert reader.read() is None
    return found


def faces(name):
    """As InsightFace's MXFaceDataset."""
    reader = recordio.MXIndexedRecordIO(str(HERE / f"{name}.idx"), str(HERE / f"{name}.rec"), "r")
    head, _ = recordio.unpack(reader.read_idx(0))
    assert head.flag > 0
    found = []
    for key in range(1, int(head.label[0])):
        header, image = recordio.unpack(reader.read_idx(key))
        found.append(sample(str(key), str(key), header, image, label_of(header, False)))
    return found


def main():
    header = recordio.IRHeader
    images = [png(seed) for seed in range(7)]
    classes = [(10 + i, header(0, i % 3, 10 + i, 0), image) for i, image in enumerate(images)]
    write("classes", classes)
    write("plain", classes, idx=False)
    # Images that hold the magic number at a multiple of 4 of the record, which writers divide there.
    filler = images[0] + b"\0" * (-len(images[0]) % 4)
    divided = [filler + MAGIC + b"tail", filler + MAGIC + MAGIC + b"odd", filler + MAGIC, filler + b"x" + MAGIC + b"not divided"]
    write("divided", [(i, header(0, i, i, 0), image) for i, image in enumerate(divided)])
    write("divided-plain", [(i, header(0, i, i, 0), image) for i, image in enumerate(divided)], idx=False)
    parts = [struct.unpack_from("<I", data, 4)[0] >> 29 for data in [(HERE / "divided.rec").read_bytes()]]
    assert parts == [1]
    write("rows", [(i, header(0, [i + 0.5, -i, 1e6], i, 0), image) for i, image in enumerate(images[:4])])
    write("numbers", [(i, header(0, value, i, 0), images[i]) for i, value in enumerate([0.0, 1.0, 0.25])])
    write("one", [(i, header(0, [float(i)], i, 0), images[i]) for i in range(3)])
    # As face2rec2.py writes: record 0 says where the images end, the records after them are of persons.
    face = [(0, header(0, [6.0, 8.0], 0, 0), b"")]
    face += [(i, header(0, float(i // 3) if i % 2 else [float(i // 3), 0.0], i, 0), images[i]) for i in range(1, 6)]
    face += [(6, header(0, [1.0, 3.0], 6, 0), b""), (7, header(0, [3.0, 6.0], 7, 0), b"")]
    write("faces", face)
    write("faces-plain", face, idx=False)
    # Lines in another order, and not all of them.
    lines = (HERE / "classes.idx").read_text().splitlines()
    (HERE / "some.idx").write_text("".join(f"{lines[i]}\n" for i in (4, 1, 6)))
    (HERE / "some.rec").write_bytes((HERE / "classes.rec").read_bytes())
    # A last record without its padding.
    cut = (HERE / "plain.rec").read_bytes()
    (HERE / "cut.rec").write_bytes(cut[:-len(images[6]) // 2])
    (HERE / "elsewhere.rec").write_bytes(cut)
    (HERE / "elsewhere.idx").write_text("1\t0\n2\t64\n")
    (HERE / "words.rec").write_bytes(cut)
    (HERE / "words.idx").write_text("1\tzero\n")
    (HERE / "beyond.rec").write_bytes(cut)
    (HERE / "beyond.idx").write_text(f"1\t{len(cut)}\n")
    (HERE / "empty.rec").write_bytes(b"")
    (HERE / "bytes.rec").write_bytes(MAGIC + struct.pack("<I", 5) + b"hello\0\0\0")
    (HERE / "not.rec").write_bytes(b"something else")

    expected = {
        "classes.rec": {"samples": indexed("classes")},
        "plain.rec": {"samples": plain("plain")},
        "{classes,plain}.rec": {"samples": indexed("classes") + plain("plain")},
        "divided.rec": {"samples": indexed("divided")},
        "divided-plain.rec": {"samples": plain("divided-plain")},
        "rows.rec": {"samples": indexed("rows", True), "type": "float"},
        "rows.rec #none": {"samples": [{**one, "label": None} for one in indexed("rows", True)], "options": {"labels": "none"}},
        "numbers.rec": {"samples": indexed("numbers", True), "type": "float"},
        "one.rec": {"samples": indexed("one")},
        "faces.rec": {"samples": faces("faces")},
        "faces-plain.rec": {"samples": faces("faces")},
        "some.rec": {"samples": indexed("some")},
        "classes.rec #column": {"options": {"label_column": "label"}, "fault": "it has no columns: leave out"},
        "cut.rec": {"fault": "it is damaged or was cut off; copy it again"},
        "elsewhere.rec": {"fault": "byte 64: found 0x"},
        "words.rec": {"fault": "words.idx: byte 0: line 1 is not of the form KEY, tab, byte"},
        "beyond.rec": {"fault": "beyond.idx: byte 0: line 1 says that a record begins at byte"},
        "empty.rec": {"fault": "no images among 0 records"},
        "bytes.rec": {"fault": "byte 0: a record has 5 bytes, but MXNet's header of an image has 24"},
        "not.rec": {"fault": "byte 0: found 0x656d6f73, but a record of a RecordIO file begins with 0xced7230a"},
    }
    for one in expected.values():
        if "samples" in one:
            one["classes"] = None
    (HERE / "expected.json").write_text(json.dumps(expected, indent=None, separators=(",", ":")).replace('},{"key"', '},\n{"key"') + "\n")


if __name__ == "__main__":
    sys.exit(main())
