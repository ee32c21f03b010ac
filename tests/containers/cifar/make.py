#!/usr/bin/env python3
"""Writes batches of CIFAR-10 and CIFAR-100 in the layouts of their site, and what torchvision finds in them.

Run by hand: make.py PYTHON2, with a Python that has torchvision; PYTHON2 is one with NumPy, whose cPickle writes the pickles, as
CIFAR's author did. The binary files hold the same images; they are read by this file, as the site describes them.
"""

import json
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import numpy
from torchvision import datasets
from torchvision.datasets import cifar

HERE = Path(__file__).parent
NAMES_10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
NAMES_FINE = [f"f{i}" for i in range(100)]
NAMES_COARSE = [f"c {i}" for i in range(20)]
WRITE = """
import cPickle, json, sys, numpy
for path, entries in json.load(sys.stdin):
    made = {}
    for key, value in entries:
        if key == "data":
            value = numpy.array(value, dtype=numpy.uint8)
        elif isinstance(value, list):
            value = [one.encode("utf-8") if isinstance(one, unicode) else one for one in value]
        elif isinstance(value, unicode):
            value = value.encode("utf-8")
        made[key.encode("utf-8")] = value
    with open(path, "wb") as out:
        cPickle.dump(made, out, 2)
"""


def image(seed):
    """32 x 32 RGB, as three planes."""
    return numpy.array([(seed * 91 + i * 7 + i // 1024 * 50 + i // 32 % 32 * 3) % 256 for i in range(3072)], dtype=numpy.uint8)


def pnm(pixels):
    return b"P6 %5d %5d  255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()


def samples_of(found, names):
    result = []
    for name, (picture, label) in zip(names, found):
        data = pnm(numpy.asarray(picture))
        result.append({"key": name, "size": len(data), "crc32": zlib.crc32(data), "label": int(label)})
    return result


def binary(path, labels, which):
    data, found = path.read_bytes(), []
    step = labels + 3072
    for at in range(0, len(data), step):
        planes = numpy.frombuffer(data[at + labels:at + step], dtype=numpy.uint8).reshape(3, 32, 32)
        found.append((planes.transpose(1, 2, 0), data[at + which]))
    return samples_of(found, [str(i) for i in range(len(found))])


def names(path):
    with open(path, "rb") as file:
        return [str(name) for name in pickle.load(file, encoding="latin1")["filenames"]]


def main():
    python2 = sys.argv[1]
    ten_py, ten, hundred_py, hundred = (HERE / name for name in
        ("cifar-10-batches-py", "cifar-10-batches-bin", "cifar-100-python", "cifar-100-binary"))
    for folder in (ten_py, ten, hundred_py, hundred):
        folder.mkdir(exist_ok=True)
    files = []
    batches = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for number, name in enumerate(batches):
        label = (number * 3 + 1) % 10
        files.append((str(ten_py / name), [["batch_label", f"batch {number}"], ["labels", [label]],
                                          ["data", [image(number).tolist()]], ["filenames", [f"{name}_s_{number:06d}.png"]]]))
        if name != "test_batch":
            (ten / f"{name}.bin").write_bytes(bytes([label]) + image(number).tobytes())
    files.append((str(ten_py / "batches.meta"), [["num_cases_per_batch", 10000], ["label_names", NAMES_10], ["num_vis", 3072]]))
    (ten / "batches.meta.txt").write_text("\n".join(NAMES_10) + "\n\n")
    for name, images in (("train", [20, 21]), ("test", [22])):
        fine, coarse = [seed * 4 for seed in images], [seed % 20 for seed in images]
        files.append((str(hundred_py / name), [["filenames", [f"{name}/{seed}.png" for seed in images]], ["batch_label", "1 of 1"],
                                              ["fine_labels", fine], ["coarse_labels", coarse],
                                              ["data", [image(seed).tolist() for seed in images]]]))
        if name == "train":
            (hundred / f"{name}.bin").write_bytes(
                b"".join(bytes([c, f]) + image(seed).tobytes() for seed, f, c in zip(images, fine, coarse)))
    files.append((str(hundred_py / "meta"), [["fine_label_names", NAMES_FINE], ["coarse_label_names", NAMES_COARSE]]))
    (hundred / "fine_label_names.txt").write_text("\n".join(NAMES_FINE) + "\n")
    (hundred / "coarse_label_names.txt").write_text("\n".join(NAMES_COARSE) + "\n")
    subprocess.run([python2, "-c", WRITE], input=json.dumps(files), text=True, check=True)
    # As Python 3 pickles the same; and what must be refused.
    one = {"data": numpy.array([image(30)]), "labels": [7], "filenames": ["thirty.png"]}
    (HERE / "protocol4").write_bytes(pickle.dumps(one, protocol=4))
    (HERE / "protocol2").write_bytes(pickle.dumps(one, protocol=2)[:400])
    (HERE / "program").write_bytes(b"\x80\x02}q\x00U\x04dataq\x01cos\nsystem\nq\x02U\x04trueq\x03\x85q\x04Rq\x05s.")
    (HERE / "words").write_bytes(pickle.dumps({"data": [1, 2]}, protocol=2))
    (HERE / "short").write_bytes((ten_py / "data_batch_1").read_bytes()[:600])
    (HERE / "test_batch.bin").write_bytes((ten / "data_batch_1.bin").read_bytes()[:300])
    (HERE / "test.bin").write_bytes(b"\x13\x63" + bytes(100))

    cifar.check_integrity = lambda *_: True
    expected = {}

    def reference(dataset, train):
        dataset._check_integrity = lambda self: True
        return dataset(str(HERE), train=train)

    for dataset, folder, train, test in ((datasets.CIFAR10, ten_py, batches[:5], batches[5:]),
                                         (datasets.CIFAR100, hundred_py, ["train"], ["test"])):
        for is_train, parts in ((True, train), (False, test)):
            found = reference(dataset, is_train)
            source = folder.name if is_train else f"{folder.name}/{parts[0]}"
            expected[source] = {"classes": found.classes, "samples": samples_of(found, sum((names(folder / p) for p in parts), []))}
    assert expected["cifar-10-batches-py"]["classes"] == NAMES_10
    expected["cifar-100-python #coarse"] = {
        "classes": NAMES_COARSE, "options": {"label_column": "coarse_labels"},
        "samples": [{**sample, "label": label} for sample, label in zip(expected["cifar-100-python"]["samples"], (0, 1))]}
    expected["cifar-100-python/test #none"] = {
        "classes": None, "options": {"labels": "none"},
        "samples": [{**sample, "label": None} for sample in expected["cifar-100-python/test"]["samples"]]}
    expected["cifar-10-batches-bin"] = {
        "classes": NAMES_10, "samples": sum((binary(ten / f"{name}.bin", 1, 0) for name in batches[:5]), [])}
    expected["cifar-10-batches-bin/data_batch_3.bin"] = {"classes": NAMES_10, "samples": binary(ten / "data_batch_3.bin", 1, 0)}
    expected["cifar-100-binary"] = {"classes": NAMES_FINE, "samples": binary(hundred / "train.bin", 2, 1)}
    expected["cifar-100-binary #coarse"] = {
        "classes": NAMES_COARSE, "options": {"label_column": "coarse_labels"}, "samples": binary(hundred / "train.bin", 2, 0)}
    for key, part in (("cifar-10-batches-py", "cifar-10-batches-bin"), ("cifar-100-python", "cifar-100-binary")):
        assert [(s["crc32"], s["label"]) for s in expected[key]["samples"]] == [(s["crc32"], s["label"]) for s in expected[part]["samples"]]
    picture = image(30).reshape(3, 32, 32).transpose(1, 2, 0)
    expected["protocol4"] = {"classes": None, "samples": samples_of([(picture, 7)], ["thirty.png"])}
    expected |= {
        "protocol2": {"fault": "Python 3 wrote its bytes as text (protocol 2)"},
        "program": {"fault": "byte 13: the pickle names something other than NumPy's arrays of bytes, which could run any program"},
        "words": {"fault": "is a pickle without an array of bytes \"data\""},
        "short": {"fault": "a string of 3072 bytes begins here, but the file ends at byte 600"},
        "test_batch.bin": {"fault": "byte 0: a record has 3073 bytes, but the file ends after 300 of them"},
        "test.bin": {"fault": "byte 0: a record has 3074 bytes, but the file ends after 102 of them"},
        "cifar-10-batches-py #column": {"options": {"label_column": "fine_labels"}, "fault": "has no labels \"fine_labels\": expected labels"},
        "cifar-100-binary #image": {"options": {"image_column": "image"}, "fault": "has no column of images \"image\": expected data"},
    }
    text = json.dumps(expected, separators=(",", ":")).replace('},{"key"', '},\n{"key"').replace('},"', '},\n"')
    (HERE / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
