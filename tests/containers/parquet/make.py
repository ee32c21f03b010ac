#!/usr/bin/env python3
"""Writes the Parquet fixtures of this folder with `datasets` and pyarrow, and what `datasets` reads from them into expected.json.

Run by hand, with the versions that it prints: python make.py (needs datasets, pyarrow, Pillow).
"""

import io
import json
import os
import random
import tempfile
import zlib
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

HERE = Path(__file__).parent
NAMES = ["cat", "dög", "owl"]
expected = {}


def png(seed):
    """An image of 8x8, the smallest that still differs from its neighbors."""
    chance = random.Random(seed)
    image = Image.new("1", (8, 8))
    image.putdata([255 * chance.randrange(2) for _ in range(64)])
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def rows(count, first=0):
    return [{"bytes": png(first + i), "path": f"{first + i:03d}.png"} for i in range(count)]


def sample(number, data, path, label):
    name = os.path.basename(path) if path else str(number)
    entry = {"key": name or str(number), "size": len(data), "crc32": zlib.crc32(data)}
    if label is not None:
        entry["label"] = label
    return entry


def note(source, samples, classes=None, kind=None, options=None):
    assert source not in expected, source
    entry = expected[source] = {"classes": classes, "samples": samples}
    if kind:
        entry["type"] = kind
    if options:
        entry["options"] = options


def refused(source, text, options=None):
    assert source not in expected, source
    entry = expected[source] = {"fault": text}
    if options:
        entry["options"] = options


def loaded(pattern):
    """What `datasets` reads: the split of all files that the pattern names."""
    with tempfile.TemporaryDirectory() as cache:
        return list(datasets.load_dataset("parquet", data_files=str(HERE / pattern), split="train", cache_dir=cache)
                    .cast_column("image", datasets.Image(decode=False)))


def expected_of(pattern, label="label"):
    """What `datasets` reads, as samples."""
    return [sample(i, row["image"]["bytes"], row["image"]["path"], row.get(label)) for i, row in enumerate(loaded(pattern))]


def reference(source, classes=NAMES, label="label", options=None):
    """Notes what `datasets` reads."""
    note(source, expected_of(source.split(" #")[0], label), classes, options=options)


def features(**more):
    return datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES), **more})


def dataset(images, labels):
    return datasets.Dataset.from_dict({"image": images, "label": labels}, features=features())


def write(name, table, row_group_size=None, **options):
    """Without what would make the fixtures large."""
    with pq.ParquetWriter(HERE / name, table.schema, **{"store_schema": False, "write_statistics": False, **options}) as writer:
        writer.write_table(table, row_group_size)
        writer.add_key_value_metadata(table.schema.metadata or {})


def arrow(name, columns, **options):
    write(name, pa.table(columns), **options)


def as_datasets_writes():
    dataset(rows(7), [0, 1, 2, 2, 1, 0, 1]).to_parquet(HERE / "default.parquet")
    reference("default.parquet")
    # As before version 4.6: everything compressed with Snappy, in row groups of 100 (here 3).
    write("before.parquet", dataset(rows(7, 10), [0, 1, 2, 2, 1, 0, 1]).data.table, compression="snappy", row_group_size=3)
    reference("before.parquet")
    for part in range(2):
        write(f"split-{part:05d}-of-00002.parquet", dataset(rows(2, 20 + 2 * part), [part, 2]).data.table)
    reference("split-*.parquet")
    # One of them has no rows.
    write("split-00002-of-00002.parquet", dataset([], []).data.table)
    note("split-0000{0..2}-of-00002.parquet", expected["split-*.parquet"]["samples"], NAMES)
    # A folder with the files of one split, and one of two.
    for folder, names in ("one", ("train-00001-of-00002", "train-00000-of-00002")), ("two", ("x-train-00000-of-00001", "x-test-00000-of-00001")):
        (HERE / folder).mkdir(exist_ok=True)
        for i, name in enumerate(names):
            write(f"{folder}/{name}.parquet", dataset(rows(1, 35 + i), [i]).data.table, compression="zstd")
    note("one", expected_of("one/train-*.parquet"), NAMES)
    refused("two", "holds Parquet files of several splits")
    # Splits for tests have -1 for all labels.
    write("test.parquet", dataset(rows(2, 30), [-1, -1]).data.table)
    table = loaded("test.parquet")
    note("test.parquet", [sample(i, row["image"]["bytes"], row["image"]["path"], None) for i, row in enumerate(table)])


def layouts():
    table = dataset(rows(4, 40) + rows(2, 41), [0, 1, 2, 0, 1, 2]).data.table
    for compression in "none", "snappy", "gzip", "zstd":
        for version in "1.0", "2.0":
            for dictionary in False, True:
                if compression == "gzip" and dictionary:
                    continue
                name = f"{compression}-{version[0]}{'-dictionary' * dictionary}.parquet"
                write(name, table, compression=compression, data_page_version=version, use_dictionary=dictionary,
                      row_group_size=4, write_page_index=version == "2.0")
                reference(name)
    # Many small pages, and a dictionary that is given up after a few entries.
    for version in "1.0", "2.0":
        name = f"pages-{version[0]}.parquet"
        table = dataset(rows(8, 60), [i % 3 for i in range(8)]).data.table
        write(name, table, compression="snappy", data_page_size=200, write_batch_size=1, dictionary_pagesize_limit=300, data_page_version=version,
              write_page_checksum=True)
        reference(name)


def columns():
    images = [png(100 + i) for i in range(4)]
    plain = [sample(i, data, None, None) for i, data in enumerate(images)]

    def labelled(*labels):
        return [sample(i, data, None, label) for i, (data, label) in enumerate(zip(images, labels))]

    arrow("binary.parquet", {"jpg": pa.array(images, pa.large_binary()), "caption": ["a", "b", "c", "d"]})
    note("binary.parquet", plain)
    for kind in "int8", "uint16", "uint64":
        arrow(f"{kind}.parquet", {"img": pa.array(images, pa.binary()), "cls": pa.array([3, 1, 2, 0], kind)})
        note(f"{kind}.parquet", labelled(3, 1, 2, 0), kind="class")
    for version in "1.0", "2.0":
        name = f"bool-{version[0]}.parquet"
        arrow(name, {"img": pa.array(images, pa.binary()), "label": pa.array([True, False, False, True])}, data_page_version=version)
        note(name, labelled(1, 0, 0, 1), kind="class")
        name = f"list-{version[0]}.parquet"
        arrow(name, {"img": pa.array(images, pa.binary()), "labels": pa.array([[2, 0], [], [1], [0, 1, 2]], pa.list_(pa.int64())),
                     "box": pa.array([[0.5, 1], [2, 3], [4, 5.25], [6, 7]], pa.list_(pa.float32(), 2)), "score": [0.5, 1, -2, 3e9]},
              data_page_version=version, row_group_size=3)
        note(name, labelled([1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]), kind="multi_hot")
        note(f"{name} #box", labelled([0.5, 1], [2, 3], [4, 5.25], [6, 7]), kind="float", options={"label_column": "box"})
        note(f"{name} #score", labelled([0.5], [1], [-2], [3e9]), kind="float", options={"label_column": "score"})
    # Structures whose parts must be there, names in folders and names that are none, columns to choose from.
    struct = pa.struct([pa.field("bytes", pa.binary(), nullable=False), pa.field("path", pa.string(), nullable=False)])
    paths = ["/home/x/a/7.png", "a\nb.png", "", "b/../.."]
    picture = pa.array([{"bytes": data, "path": path} for data, path in zip(images, paths)], struct)
    table = pa.table([picture, picture, pa.array([5, 6, 7, 8]), pa.array([1, 2, 3, 4], pa.int32())], pa.schema([
        pa.field("front", struct, nullable=False), pa.field("back", struct, nullable=False),
        pa.field("fine", pa.int64(), nullable=False), pa.field("coarse", pa.int32())]))
    write("choose.parquet", table)
    chosen = [sample(i, data, "7.png" if i == 0 else None, 4 + i) for i, data in enumerate(images)]
    note("choose.parquet", chosen, options={"image_column": "back", "label_column": "fine", "label_offset": -1})
    refused("choose.parquet #which", "more than one column may hold the images: say which with image_column")
    refused("choose.parquet #gone", 'there is no column "jpg"; it has front (structure), back (structure), fine (int64), coarse (int32)',
            {"image_column": "jpg"})
    refused("choose.parquet #number", 'column "fine" is of type int64: expected binary', {"image_column": "fine"})
    refused("choose.parquet #structure", 'column "back" is a structure: expected integers',
            {"image_column": "front", "label_column": "back"})
    note("choose.parquet #unlabeled", [{k: v for k, v in entry.items() if k != "label"} for entry in chosen],
         options={"image_column": "front", "labels": "none"})


def refusals():
    arrow("empty.parquet", {"image": pa.array([], pa.binary())})
    refused("empty.parquet", "no rows, and so no samples")
    images = [png(200), None, png(201)]
    arrow("null.parquet", {"image": pa.array(images, pa.binary())})
    refused("null.parquet", "row 1 has no image")
    arrow("place.parquet", {"image": [{"bytes": png(202), "path": "a.png"}, {"bytes": None, "path": "b.png"}]})
    refused("place.parquet", "row 1 has only the place of its image (b.png)")
    images = pa.array([png(203)] * 2, pa.binary())
    arrow("text.parquet", {"image": images, "label": ["cat", "dog"]})
    refused("text.parquet", 'column "label" is of type text: expected integers or numbers')
    arrow("lists.parquet", {"image": pa.array([[png(204)], [png(205)]], pa.list_(pa.binary()))})
    refused("lists.parquet", 'column "image" is a list: expected binary', {"image_column": "image"})
    arrow("half.parquet", {"image": images, "label": [1, None]})
    refused("half.parquet", "1 has no label, but the samples before it have one")
    arrow("negative.parquet", {"image": images, "label": [1, -5]})
    refused("negative.parquet", "row 1: column label: expected a class from 0")
    for codec in "brotli", "lz4":
        arrow(f"{codec}.parquet", {"image": images}, compression=codec)
        refused(f"{codec}.parquet", "write the file with compression none, snappy, gzip or zstd")
    for encoding in "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY":
        name = f"{encoding.lower()}.parquet"
        arrow(name, {"image": images}, use_dictionary=False, column_encoding={"image": encoding})
        refused(name, f"column image is encoded as {encoding}")
    for encoding, kind in ("DELTA_BINARY_PACKED", "int32"), ("BYTE_STREAM_SPLIT", "float"):
        name = f"{encoding.lower()}.parquet"
        arrow(name, {"image": images, "label": pa.array([1, 2], kind)}, use_dictionary=False, column_encoding={"label": encoding})
        refused(name, f"column label is encoded as {encoding}")


def main():
    datasets.disable_progress_bars()
    for old in HERE.rglob("*.parquet"):
        old.unlink()
    as_datasets_writes()
    layouts()
    columns()
    refusals()
    text = ",\n".join(f" {json.dumps(source)}: {json.dumps(entry, ensure_ascii=False)}" for source, entry in expected.items())
    (HERE / "expected.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in HERE.iterdir())
    print(f"datasets {datasets.__version__}, pyarrow {pa.__version__}: {len(expected)} entries, {size} bytes")


if __name__ == "__main__":
    main()
