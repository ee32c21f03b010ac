#!/usr/bin/env python3
"""Writes the fixtures of TFRecord with TensorFlow and TensorFlow Datasets, and what both read from them.

    make.py      by hand, with tensorflow and tensorflow-datasets; unpacks nothing and asks no network
"""

import io
import json
import os
import shutil
import sys
import zlib
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

HERE = Path(__file__).parent


def picture(seed, kind="JPEG", size=(16, 12)):
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1] // 4, size[0] // 4, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).resize(size).save(out, kind)
    return out.getvalue()


def bytes_feature(*values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[v if isinstance(v, bytes) else v.encode() for v in values]))


def ints(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def example(**features):
    named = {name.replace("__", "/"): value for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString(deterministic=True)


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def unpacked(image, label, value):
    """An Example as old writers of protobufs encode it: numbers that are not packed, the value of an entry before its key."""
    numbers = b"".join(b"\x08" + varint(n & (1 << 64) - 1) for n in label)
    fixed = b"".join(b"\x0d" + np.float32(n).tobytes() for n in value)
    entries = [(b"image/encoded", field(1, field(1, image))), (b"image/class/label", field(3, numbers)), (b"score", field(2, fixed))]
    return field(1, b"".join(field(1, field(2, feature) + field(1, key)) for key, feature in entries))


def write(name, records, compression=""):
    with tf.io.TFRecordWriter(str(HERE / name), options=compression) as writer:
        for record in records:
            writer.write(record)


def read(names, image, label, offset=0, name=None, row=False):
    """What TensorFlow finds: tf.data.TFRecordDataset, and tf.train.Example for the features."""
    samples = []
    for one in names:
        for number, record in enumerate(tf.data.TFRecordDataset([str(HERE / one)])):
            features = tf.train.Example.FromString(record.numpy()).features.feature
            data = features[image].bytes_list.value[0]
            sample = {"key": features[name].bytes_list.value[0].decode() if name else str(number), "size": len(data),
                      "crc32": zlib.crc32(data), "label": None}
            if label:
                kind = features[label].WhichOneof("kind")
                values = list(getattr(features[label], kind).value)
                if kind == "int64_list" and len(values) == 1 and not row:
                    sample["label"] = values[0] + offset
                elif kind == "int64_list":
                    sample["label"] = [values]
                else:
                    sample["label"] = [float(f"{v:.9g}") for v in values]
            samples.append(sample)
    if any(isinstance(s["label"], list) and isinstance(s["label"][0], list) for s in samples):
        width = max(max(s["label"][0], default=0) for s in samples) + 1
        for sample in samples:
            sample["label"] = [int(n in sample["label"][0]) for n in range(width)]
    return samples


class Tiny(tfds.core.GeneratorBasedBuilder):
    """A dataset as TensorFlow Datasets prepares it."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({
            "image": tfds.features.Image(shape=(None, None, 3), encoding_format="png"),
            "file_name": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=["cat", "dog", "Ärger"]),
        }))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(7)}

    def _generate_examples(self, count):
        for i in range(count):
            yield f"key{i}", {"image": np.random.default_rng(i).integers(0, 255, (6, 5, 3), np.uint8), "file_name": f"n/{i}.png",
                              "label": i % 3}


def write_tfds(expected):
    shutil.rmtree(HERE / "tfds", ignore_errors=True)
    builder = Tiny(data_dir="/tmp/penstock-make-tfds")
    shutil.rmtree("/tmp/penstock-make-tfds", ignore_errors=True)
    config = tfds.download.DownloadConfig(num_shards=2)
    builder.download_and_prepare(download_config=config)
    shutil.copytree(builder.data_dir, HERE / "tfds")
    shutil.rmtree("/tmp/penstock-make-tfds")
    files = sorted(p.name for p in (HERE / "tfds").glob("*.tfrecord-*"))
    assert len(files) == 2, files
    samples = read([f"tfds/{name}" for name in files], "image", "label", name="file_name")
    # The order and the labels of the builder's own reader.
    order = tfds.ReadConfig(interleave_cycle_length=1, shuffle_seed=None)
    dataset = tfds.builder_from_directory(HERE / "tfds").as_dataset(split="train", read_config=order, shuffle_files=False,
                                                                    decoders={"image": tfds.decode.SkipDecoding()})
    own = [(zlib.crc32(row["image"].numpy()), int(row["label"]), row["file_name"].numpy().decode()) for row in dataset]
    assert own == [(s["crc32"], s["label"], s["key"]) for s in samples], own
    expected["tfds/tiny-train.tfrecord*"] = {"classes": ["cat", "dog", "Ärger"], "samples": samples, "type": "class"}
    expected["tfds"] = expected["tfds/tiny-train.tfrecord*"]
    expected["tfds #none"] = {"classes": None, "samples": [{**s, "label": None} for s in samples], "options": {"labels": "none"}}


def main():
    expected = {}
    imagenet = [example(image__encoded=bytes_feature(picture(i)), image__class__label=ints(i % 3 + 1),
                        image__filename=bytes_feature(f"n0144_{i}.JPEG"), image__format=bytes_feature("JPEG"),
                        image__height=ints(12), image__object__bbox__xmin=floats(0.25, 0.5), image__class__text=bytes_feature("tench"))
                for i in range(5)]
    write("train-00000-of-00002", imagenet[:3])
    write("train-00001-of-00002", imagenet[3:])
    both = ["train-00000-of-00002", "train-00001-of-00002"]
    samples = read(both, "image/encoded", "image/class/label", name="image/filename")
    expected["train-*-of-00002"] = {"classes": None, "samples": samples, "type": "class"}
    expected["train-*-of-00002 #offset"] = {
        "classes": None, "options": {"label_offset": -1},
        "samples": read(both, "image/encoded", "image/class/label", -1, name="image/filename")}
    expected["train-*-of-00002 #negative"] = {"options": {"label_offset": -2}, "fault": "correct label_offset"}

    write("custom.tfrecord", [example(jpg=bytes_feature(picture(10 + i)), note=bytes_feature("x" * i), y=floats(0.5, i, -1e-3),
                                      several=ints(0, i + 1)) for i in range(3)])
    samples = read(["custom.tfrecord"], "jpg", None)
    expected["custom.tfrecord"] = {"classes": None, "samples": samples}
    expected["custom.tfrecord #floats"] = {"classes": None, "samples": read(["custom.tfrecord"], "jpg", "y"), "type": "float",
                                           "options": {"label_column": "y"}}
    expected["custom.tfrecord #several"] = {"classes": None, "samples": read(["custom.tfrecord"], "jpg", "several"),
                                            "type": "multi_hot", "options": {"label_column": "several"}}
    expected["custom.tfrecord #missing"] = {"options": {"image_column": "png"},
                                            "fault": "has no feature png (image_column): its features are jpg (bytes)"}
    expected["custom.tfrecord #text"] = {"options": {"label_column": "note"}, "fault": "is bytes, but a label is integers or floats"}
    expected["custom.tfrecord #numbers"] = {"options": {"image_column": "y"}, "fault": "the feature y holds numbers"}

    write("unpacked.tfrecord", [unpacked(picture(20 + i), [i], [i / 2, 3]) for i in range(3)])
    samples = read(["unpacked.tfrecord"], "image/encoded", "image/class/label")
    expected["unpacked.tfrecord"] = {"classes": None, "samples": samples, "type": "class"}
    expected["unpacked.tfrecord #floats"] = {"classes": None, "samples": read(["unpacked.tfrecord"], "image/encoded", "score"),
                                             "type": "float", "options": {"label_column": "score"}}

    write("two.tfrecord", [example(a=bytes_feature(picture(30)), b=bytes_feature(picture(31, "PNG")))])
    expected["two.tfrecord"] = {"fault": "several features with images: say which feature is the image with image_column"}
    write("none.tfrecord", [example(pixels=bytes_feature(b"\1\2\3\4" * 40), label=ints(3))])
    expected["none.tfrecord"] = {"fault": "its features are label (integers), pixels (bytes)"}
    write("video.tfrecord", [example(image=bytes_feature(picture(32), picture(33)))])
    expected["video.tfrecord"] = {"fault": "has several values: a sample is one image"}
    write("mixture.tfrecord", [example(image=bytes_feature(picture(34)), label=ints(*range(1, 2 + i))) for i in range(2)])
    expected["mixture.tfrecord"] = {"fault": "with type: multi_hot"}
    write("unlabeled.tfrecord", [example(image=bytes_feature(picture(35)), **({"label": ints(1)} if i else {})) for i in range(2)])
    expected["unlabeled.tfrecord"] = {"fault": "has a label, but the samples before it have none"}
    write("minus.tfrecord", [example(image=bytes_feature(picture(36)), label=ints(-1))])
    expected["minus.tfrecord"] = {"fault": "its label is -1, which with label_offset 0 is not a class"}
    sequence = tf.train.SequenceExample(feature_lists=tf.train.FeatureLists(feature_list={
        "frames": tf.train.FeatureList(feature=[bytes_feature(picture(37))])})).SerializeToString()
    write("sequence.tfrecord", [sequence])
    expected["sequence.tfrecord"] = {"fault": "found lists of features, as in a tf.SequenceExample"}
    write("raw.tfrecord", [picture(38)])
    expected["raw.tfrecord"] = {"fault": "the first record is not a tf.Example"}
    write("text.tfrecord.gz", [example(image=bytes_feature(picture(39)))], "GZIP")
    expected["text.tfrecord.gz"] = {"fault": "is compressed (GZIP)"}
    write("zlib.tfrecord", [example(image=bytes_feature(picture(39)))], "ZLIB")
    expected["zlib.tfrecord"] = {"fault": "is compressed (ZLIB)"}
    write("empty.tfrecord", [])
    expected["empty.tfrecord"] = {"fault": "no samples among 0 records"}

    whole = (HERE / "train-00000-of-00002").read_bytes()
    for name, data, fault in (
            ("cut-in-header.tfrecord", whole + b"\1\2\3", "the header of a record needs 12 bytes"),
            ("cut.tfrecord", whole[:-5], "it was cut off"),
            ("length.tfrecord", whole[:3] + b"\1" + whole[4:], "the length of record 0 has the checksum"),
            ("flipped.tfrecord", whole[:60] + bytes([whole[60] ^ 1]) + whole[61:], "the bytes of record 0 have the checksum")):
        (HERE / name).write_bytes(data)
        expected[name] = {"fault": fault}
    write_tfds(expected)
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
