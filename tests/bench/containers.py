#!/usr/bin/env python3
"""Containers, each beside a tar of the same images and beside its own reference reader.

    tests/bench/containers.py BUILD IMAGES --python PYTHON [--tensorflow PYTHON] [--rounds 5] [--seconds 5]
                              [--threads 2] [--batch-size 32] [--only NAME,NAME] [--json FILE]
    tests/bench/containers.py BUILD IMAGES --python PYTHON [--tensorflow PYTHON] --index SAMPLES

Writes the JPEGs of the folder IMAGES into each container with the container's reference writer, then
measures RandomResizedCrop 224 and a flip, uint8, one container after the other, in rounds. Each round
runs, each in a process of its own: penstock on the container, penstock on a tar of the same files,
and the reference reader in a DataLoader with as many workers as penstock has threads, where PIL
decodes. A container whose images are stored must reach 95 % of the tar's rate; every container must
reach three times its reference reader's. The figures are medians of the rounds' ratios, and all are
of an epoch that has entry points.

PYTHON has torch, datasets, pyarrow, mosaicml-streaming, litdata and lmdb; the PYTHON of --tensorflow
has tensorflow and torch. Without the latter TFRecord is left out, with a word. A class of an image
is its name's part before the first "_". Prints a table in Markdown; the exit status is 1 if a bar is
missed. A row is printed when its container is measured; --json FILE has all figures so far at any
time.

With --index it writes SAMPLES samples of 2,000 bytes into each container instead, with the same
writers, and measures `penstock check --index-only` of them, warm: its time, and the most memory that the
process had (VmHWM). The bars are 500 MB/s, and 32 MiB whatever SAMPLES is."""
import argparse
import io
import itertools
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

STORED_BAR, REFERENCE_BAR = 0.95, 3.0
PACKED = ("parquet-snappy", "parquet-zstd", "zip-deflated")
CONTAINERS = ("parquet", "parquet-snappy", "parquet-zstd", "tfrecord", "mds", "litdata", "zip", "zip-deflated", "lmdb", "recordio")
PER_FILE = 250  # samples of a Parquet file or a TFRecord
SMALL, INDEX_RATE_BAR, INDEX_MEMORY_BAR = 2000, 500e6, 32 << 20


# ---- writing


def images_of(folder):
    """(name, bytes, label) of every image; `folder` may be a number of made-up ones."""
    if folder.isdigit():
        yield from ((f"{number % 1000:03}_{number:08}.jpg", b"\xff\xd8\xff\xe0" + random.randbytes(SMALL - 4), number % 1000) for number in range(int(folder)))
        return
    names = sorted(path.name for path in Path(folder).iterdir() if path.suffix.lower() in (".jpg", ".jpeg"))
    classes = sorted({name.split("_")[0] for name in names})
    for name in names:
        yield name, (Path(folder) / name).read_bytes(), classes.index(name.split("_")[0])


def parts_of(folder):
    size, everything = 100_000 if folder.isdigit() else PER_FILE, images_of(folder)
    while part := list(itertools.islice(everything, size)):
        yield part


def write_tar(folder, to):
    with tarfile.open(to / "all.tar", "w") as tar:
        for name, data, label in images_of(folder):
            for member, content in ((name, data), (f"{Path(name).stem}.cls", str(label).encode())):
                info = tarfile.TarInfo(member)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def write_parquet(folder, to, compression="none"):
    import datasets  # pylint: disable=import-outside-toplevel
    import pyarrow.parquet as pq  # pylint: disable=import-outside-toplevel

    count = max(label for _, _, label in images_of(folder)) + 1
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=count)})
    for number, part in enumerate(parts_of(folder)):
        rows = {"image": [{"bytes": data, "path": name} for name, data, _ in part], "label": [label for _, _, label in part]}
        data = datasets.Dataset.from_dict(rows, features=features)
        path = to / f"train-{number:05}.parquet"
        if compression == "none":
            data.to_parquet(path)
        else:
            table = data.data.table.replace_schema_metadata(data.features.arrow_schema.metadata)
            pq.write_table(table, path, compression=compression, row_group_size=100)


def write_tfrecord(folder, to):
    import tensorflow as tf  # pylint: disable=import-outside-toplevel

    for number, part in enumerate(parts_of(folder)):
        with tf.io.TFRecordWriter(str(to / f"train-{number:05}.tfrecord")) as writer:
            for name, data, label in part:
                feature = {
                    "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
                    "image/filename": tf.train.Feature(bytes_list=tf.train.BytesList(value=[name.encode()])),
                    "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def write_mds(folder, to):
    from streaming import MDSWriter  # pylint: disable=import-outside-toplevel

    with MDSWriter(out=str(to / "mds"), columns={"image": "bytes", "label": "int"}) as writer:
        for _, data, label in images_of(folder):
            writer.write({"image": data, "label": label})


def litdata_made(number):
    data = b"\xff\xd8\xff\xe0" + random.Random(number).randbytes(SMALL - 4)
    return {"image": data, "label": number % 1000}


def litdata_item(item):
    """LitData stores an image that PIL has opened, and not decoded, as the bytes of its file."""
    from PIL import Image  # pylint: disable=import-outside-toplevel

    path, label = item
    return {"image": Image.open(path), "label": label}


def write_litdata(folder, to):
    import litdata  # pylint: disable=import-outside-toplevel

    if folder.isdigit():
        litdata.optimize(litdata_made, list(range(int(folder))), output_dir=str(to / "litdata"), chunk_bytes="64MB", num_workers=1)
        return
    inputs = [(str(Path(folder) / name), label) for name, _, label in images_of(folder)]
    litdata.optimize(litdata_item, inputs, output_dir=str(to / "litdata"), chunk_bytes="64MB", num_workers=1)


def write_zip(folder, to, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(to / "all.zip", "w", method) as archive:
        for name, data, _ in images_of(folder):
            archive.writestr(f"{name.split('_')[0]}/{name}", data)


def write_lmdb(folder, to):
    import lmdb  # pylint: disable=import-outside-toplevel

    with lmdb.open(str(to / "lmdb"), map_size=1 << 36) as env, env.begin(write=True) as writer:
        for name, data, _ in images_of(folder):
            writer.put(name.encode(), data)


def write_recordio(folder, to):
    with open(to / "train.rec", "wb") as out, open(to / "train.idx", "w", encoding="ascii") as index:
        for number, (_, data, label) in enumerate(images_of(folder)):
            index.write(f"{number}\t{out.tell()}\n")
            body = struct.pack("<IfQQ", 0, label, number, 0) + data
            out.write(struct.pack("<II", 0xCED7230A, len(body)) + body + b"\0" * (-len(body) % 4))


WRITERS = {
    "tar": write_tar, "parquet": write_parquet, "tfrecord": write_tfrecord, "mds": write_mds, "litdata": write_litdata,
    "zip": write_zip, "lmdb": write_lmdb, "recordio": write_recordio,
    "parquet-snappy": lambda folder, to: write_parquet(folder, to, "snappy"),
    "parquet-zstd": lambda folder, to: write_parquet(folder, to, "zstd"),
    "zip-deflated": lambda folder, to: write_zip(folder, to, zipfile.ZIP_DEFLATED),
}
SOURCES = {
    "tar": "all.tar", "parquet": "*.parquet", "parquet-snappy": "*.parquet", "parquet-zstd": "*.parquet", "tfrecord": "*.tfrecord",
    "mds": "mds", "litdata": "litdata", "zip": "all.zip", "zip-deflated": "all.zip", "lmdb": "lmdb", "recordio": "train.rec",
}


# ---- reading with the reference readers


def row_of(data):
    """What a trainer of ImageNet makes of an image's bytes, with PIL."""
    from PIL import Image  # pylint: disable=import-outside-toplevel

    with Image.open(io.BytesIO(data)) as opened:
        return row_of_image(opened.convert("RGB"))


def row_of_image(image):
    import numpy  # pylint: disable=import-outside-toplevel
    from PIL import Image  # pylint: disable=import-outside-toplevel

    width, height = image.size
    for _ in range(10):
        area, ratio = width * height * random.uniform(0.08, 1), 2.718281828 ** random.uniform(-0.28768, 0.28768)
        wide, high = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < wide <= width and 0 < high <= height:
            break
    else:
        wide, high = width, height
    left, top = random.randint(0, width - wide), random.randint(0, height - high)
    made = image.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + wide, top + high))
    pixels = numpy.asarray(made)
    return numpy.ascontiguousarray(pixels[:, ::-1] if random.random() < 0.5 else pixels)


class Endless:
    """A map-style dataset, many times over, so that epochs do not end."""

    def __init__(self, count, get):
        self.count, self.get = count, get

    def __len__(self):
        return self.count * 256

    def __getitem__(self, number):
        return row_of(self.get(number % self.count))


def reference_parquet(to):
    import datasets  # pylint: disable=import-outside-toplevel

    files = sorted(str(path) for path in to.glob("*.parquet"))
    data = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(to / "cache"))
    data = data.cast_column("image", datasets.Image(decode=False))
    return Endless(len(data), lambda number: data[number]["image"]["bytes"])


def reference_zip(to):
    names = [name for name in zipfile.ZipFile(to / "all.zip").namelist() if not name.endswith("/")]
    opened = {}

    def get(number):  # each process has a handle of its own
        if os.getpid() not in opened:
            opened[os.getpid()] = zipfile.ZipFile(to / "all.zip")
        return opened[os.getpid()].read(names[number])

    return Endless(len(names), get)


def reference_lmdb(to):
    import lmdb  # pylint: disable=import-outside-toplevel

    with lmdb.open(str(to / "lmdb"), readonly=True, lock=False) as env, env.begin() as reader:
        keys = [bytes(key) for key, _ in reader.cursor()]
    opened = {}

    def get(number):
        if os.getpid() not in opened:
            opened[os.getpid()] = lmdb.open(str(to / "lmdb"), readonly=True, lock=False).begin()
        return opened[os.getpid()].get(keys[number])

    return Endless(len(keys), get)


def reference_recordio(to):
    """A reader by MXNet's description of the format: its package installs with no Python of today."""
    offsets = [int(line.split("\t")[1]) for line in (to / "train.idx").read_text(encoding="ascii").splitlines()]
    opened = {}

    def get(number):
        if os.getpid() not in opened:
            opened[os.getpid()] = open(to / "train.rec", "rb")  # pylint: disable=consider-using-with
        file = opened[os.getpid()]
        file.seek(offsets[number])
        _, size = struct.unpack("<II", file.read(8))
        return file.read(size & (1 << 29) - 1)[24:]

    return Endless(len(offsets), get)


def reference_mds(to, options):
    from streaming import StreamingDataset  # pylint: disable=import-outside-toplevel

    class Rows(StreamingDataset):
        def __getitem__(self, number):
            return row_of(super().__getitem__(number)["image"])

    return Rows(local=str(to / "mds"), shuffle=True, batch_size=options.batch_size)


def reference_litdata(to):
    import litdata  # pylint: disable=import-outside-toplevel

    class Rows(litdata.StreamingDataset):
        def __getitem__(self, number):
            from PIL import Image  # pylint: disable=import-outside-toplevel

            image = super().__getitem__(number)["image"]  # a tensor: LitData has decoded it
            return row_of_image(Image.fromarray(image.permute(1, 2, 0).numpy()))

    return Rows(str(to / "litdata"), shuffle=True)


def reference_tfrecord(to):
    import torch  # pylint: disable=import-outside-toplevel

    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):
            import tensorflow as tf  # pylint: disable=import-outside-toplevel
            # In the workers only: TensorFlow does not survive a fork.
            worker = torch.utils.data.get_worker_info()
            files = sorted(str(path) for path in to.glob("*.tfrecord"))[worker.id::worker.num_workers]
            while True:
                for record in tf.data.TFRecordDataset(files).shuffle(100).as_numpy_iterator():
                    wanted = {"image/encoded": tf.io.FixedLenFeature([], tf.string)}
                    yield row_of(tf.io.parse_single_example(record, wanted)["image/encoded"].numpy())

    return Rows()


def reference(name, to, options):
    import torch  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(1)
    kind = name.split("-", maxsplit=1)[0]
    if kind == "mds":
        data = reference_mds(to, options)
    else:
        data = {"parquet": reference_parquet, "zip": reference_zip, "lmdb": reference_lmdb, "recordio": reference_recordio,
                "litdata": reference_litdata, "tfrecord": reference_tfrecord}[kind](to)
    random_order = isinstance(data, Endless)
    keys = {"batch_size": options.batch_size, "num_workers": options.threads, "drop_last": True}
    if kind == "litdata":
        import litdata  # pylint: disable=import-outside-toplevel

        return litdata.StreamingDataLoader(data, **keys)
    return torch.utils.data.DataLoader(data, shuffle=True if random_order else None, **keys)


# ---- measuring


def epochs_of(loader):
    while True:
        yield from loader


def window(batches, options):
    """Samples per second, after what begins slowly: workers, entry points, caches."""
    begin = time.perf_counter()
    next(batches)
    while time.perf_counter() - begin < 2:
        next(batches)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < options.seconds:
        next(batches)
        count += options.batch_size
    return count / (time.perf_counter() - start)


def child(options):
    to = Path(options.folder)
    if options.kind == "write":
        WRITERS[options.name](options.images, to)
    elif options.kind == "reference":
        print(json.dumps(window(epochs_of(reference(options.name, to, options)), options)))
        sys.stdout.flush()
        os._exit(0)  # some readers leave processes behind that wait for each other
    else:
        import penstock  # pylint: disable=import-outside-toplevel

        source = str(to / SOURCES[options.name])
        with penstock.Loader(source, batch_size=options.batch_size, threads=options.threads, device="cpu", dtype="uint8",
                             image_size=224) as loader:
            if options.kind == "warm":
                for _ in range(2):
                    list(loader)
            else:
                print(json.dumps(window(epochs_of(loader), options)))


def run(options, kind, name, folder, home):
    """One process, with a private daemon of its own; indexes and entry points are kept in `home`."""
    python = options.tensorflow if name == "tfrecord" and kind in ("write", "reference") else options.python
    with tempfile.TemporaryDirectory(prefix="penstock-containers-") as own:
        build = Path(options.build).resolve()
        environment = {**os.environ, "XDG_CACHE_HOME": str(home), "XDG_STATE_HOME": own, "XDG_RUNTIME_DIR": own, "HF_HUB_OFFLINE": "1",
                       "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3",
                       "PYTHONPATH": str(build / "python"), "PENSTOCKD": str(build / "bin/penstockd")}
        command = [python, __file__, options.build, options.images, "--kind", kind, "--name", name, "--folder", str(folder),
                   "--python", options.python]
        for key in ("seconds", "threads", "batch_size"):
            command += [f"--{key.replace('_', '-')}", str(getattr(options, key))]
        done = subprocess.run(command, check=False, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        subprocess.run([build / "bin/penstock", "stop"], env=environment, check=False, capture_output=True)
    if done.returncode:
        sys.exit(f"{kind} {name} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1]) if kind in ("reference", "penstock") else None


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images", type=lambda path: path if path.isdigit() else str(Path(path).resolve()))
    parser.add_argument("--python", required=True, help="a Python with the reference readers")
    parser.add_argument("--tensorflow", help="a Python that has tensorflow and torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--index", help="measure indexing of so many samples")
    parser.add_argument("--only", help="names of containers, separated by commas")
    parser.add_argument("--json", help="where to write all figures")
    for name in ("kind", "name", "folder"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return parser.parse_args()


def table_head():
    print("| container | images/s | of the tar's rate | bar | reference reader, images/s | times the reference | bar | |\n|---|---|---|---|---|---|---|---|",
          flush=True)


def table_row(name, rates):
    """True if the container reaches its bars."""
    own, tar, peer = (rates[kind] for kind in ("penstock", "tar", "reference"))
    of_tar = statistics.median(a / b for a, b in zip(own, tar))
    of_peer = statistics.median(a / b for a, b in zip(own, peer))
    bar = None if name in PACKED else STORED_BAR
    good = (bar is None or of_tar >= bar) and of_peer >= REFERENCE_BAR
    print(f"| {name} | {statistics.median(own):.0f} | {of_tar:.3f} | {f'>= {bar}' if bar else '(packed)'} | {statistics.median(peer):.0f} "
          f"| {of_peer:.2f} | >= {REFERENCE_BAR:g} | {'holds' if good else 'MISSED'} |", flush=True)
    return good


def figures_keep(options, figures):
    """The file is whole at any time, so that a run that is ended early has measured something."""
    if options.json:
        part = Path(f"{options.json}.part")
        part.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        part.replace(options.json)


def index_one(options, source, home):
    """Seconds and bytes of memory of one process that makes all indexes anew."""
    shutil.rmtree(home, ignore_errors=True)
    command = [Path(options.build) / "bin/penstock", "check", "--index-only", "--labels", "none", source]
    start, peak = time.perf_counter(), 0
    with subprocess.Popen(command, env={**os.environ, "XDG_CACHE_HOME": str(home)}, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:  # getrusage would count what this program had when it forked
            found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text(encoding="ascii"))
            peak = max(peak, int(found.group(1)) << 10) if found else peak
            time.sleep(0.002)
    assert process.returncode == 0, source
    return time.perf_counter() - start, peak


def main_index(options, names):
    """One container after the other: their files are large."""
    print("| container | bytes | seconds | MB/s | memory, MiB | |\n|---|---|---|---|---|---|", flush=True)
    missed, options.images, figures = 0, options.index, {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="penstock-containers-") as everything:
            folder, home = Path(everything) / "data", Path(everything) / "home"
            folder.mkdir()
            run(options, "write", name, folder, home)
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            for path in folder.rglob("*.*"):  # warm
                if path.is_file():
                    path.read_bytes()
            runs = []
            for _ in range(options.rounds):
                runs.append(index_one(options, str(folder / SOURCES[name]), home))
                for path in folder.rglob("*.idx"):
                    if path.name != "train.idx":
                        path.unlink()
            figures[name] = {"bytes": size, "seconds": [run[0] for run in runs], "memory": [run[1] for run in runs]}
            figures_keep(options, figures)
            seconds, memory = statistics.median(run[0] for run in runs), max(run[1] for run in runs)
            good = size / seconds >= INDEX_RATE_BAR and memory <= INDEX_MEMORY_BAR
            missed += not good
            print(f"| {name} | {size} | {seconds:.2f} | {size / seconds / 1e6:.0f} | {memory / (1 << 20):.1f} | {'holds' if good else 'MISSED'} |", flush=True)
    return 1 if missed else 0


def written(options, name, folder, home):
    print(f"writing {name}", file=sys.stderr, flush=True)
    folder.mkdir()
    run(options, "write", name, folder, home)
    run(options, "warm", name, folder, home)


def main(options):
    names = options.only.split(",") if options.only else list(CONTAINERS)
    if "tfrecord" in names and not options.tensorflow:
        print("without --tensorflow TFRecord is left out", file=sys.stderr)
        names.remove("tfrecord")
    if options.index:
        return main_index(options, names)
    rates, missed = {}, 0
    with tempfile.TemporaryDirectory(prefix="penstock-containers-") as everything:
        home = Path(everything) / "home"
        folders = {name: Path(everything) / name for name in ("tar", *names)}
        written(options, "tar", folders["tar"], home)
        table_head()
        for name in names:
            written(options, name, folders[name], home)
            own = rates[name] = {"penstock": [], "tar": [], "reference": []}
            order = [("penstock", name), ("tar", "tar"), ("reference", name)]
            for number in range(options.rounds):
                print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
                for kind, which in order if number % 2 else reversed(order):
                    own[kind].append(run(options, "reference" if kind == "reference" else "penstock", which, folders[which], home))
                    figures_keep(options, rates)
            missed += not table_row(name, own)
            shutil.rmtree(folders[name])
    return 1 if missed else 0


if __name__ == "__main__":
    OPTIONS = parse()
    if OPTIONS.kind:
        child(OPTIONS)
    else:
        sys.exit(main(OPTIONS))
