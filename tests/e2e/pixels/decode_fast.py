"""`decode: fast`: rows are what Pillow makes of its own shrunk JPEGs (Image.draft) and their records; the same by any decoder, for any number of
threads, and when replayed; exact where the crop is less than twice the row."""
import json
import math
import struct
import subprocess
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import command_line
from harness import LIMIT, PHOTOGRAPHS, Daemon, Skip, folder, make_dataset, photographs, rows, run_tests, tool


def need():
    try:
        import PIL
        from PIL import Image
    except ImportError as missing:
        raise Skip(f"{missing} (scripts/install-deps makes a virtual environment with Pillow and numpy)")
    if PIL.__version__ != "13.0.0":
        raise Skip(f"Pillow is {PIL.__version__}, not 13.0.0")
    return Image


def records(raw, size):
    data = raw.read_bytes()
    step = 64 + size * size * 3
    assert data and len(data) % step == 0
    for at in range(0, len(data), step):
        index, _, x, y, w, h, sw, sh, flags, _, _, _ = struct.unpack_from("<QqIIIIIIIIQQ", data, at)
        yield index, (x, y, w, h), (sw, sh), flags, data[at + 64:at + step]


def serve(home, source, options=(), environment=None, **keys):
    """One epoch: [(index, crop, source size, flags, pixels)] in order."""
    home.mkdir()
    raw = home / "raw"
    with Daemon(home, *options, environment=environment) as daemon:
        daemon.batches(source=source, drop_last=0, epochs=1, seed=3, raw=raw, **keys)
    return list(records(raw, keys["image_size"]))


def shrunk_by(crop, size):
    """8, 4, 2, or 1: how far the crop may shrink and still have the row's pixels."""
    return next((s for s in (8, 4, 2) if min(crop[2:]) >= s * size), 1)


def pillow_row(Image, path, crop, size, flags, interpolation):
    x, y, w, h = crop
    image = Image.open(path)
    by = shrunk_by(crop, size) if image.format == "JPEG" else 1
    if by > 1:
        image.draft("RGB", (image.width // by, image.height // by))
    left, top = x // by, y // by
    part = image.convert("RGB").crop((left, top, math.ceil((x + w) / by), math.ceil((y + h) / by)))
    box = (x / by - left, y / by - top, (x + w) / by - left, (y + h) / by - top)
    row = part.resize((size, size), getattr(Image, interpolation.upper()), box=box)
    return (row.transpose(Image.FLIP_LEFT_RIGHT) if flags & 1 else row).tobytes(), by


def check_against_pillow(size, interpolation="bilinear", every=1):
    """How often each scale was shrunk by, of every so-manieth row."""
    Image = need()
    files, scales, wrong = photographs(), {}, []
    with folder() as home:
        rows_served = serve(home / "d", PHOTOGRAPHS, image_size=size, train=1, decode="fast", interpolation=interpolation)
        assert len(rows_served) == len(files)
        for index, crop, source, flags, pixels in rows_served[::every]:
            row, by = pillow_row(Image, files[index], crop, size, flags, interpolation)
            scales[by] = scales.get(by, 0) + 1
            if row != pixels:
                wrong.append((files[index].name, crop, by))
    assert not wrong, (len(wrong), wrong[:5])
    return scales


def test_rows_are_those_of_pillows_draft():
    scales = check_against_pillow(64)
    count = sum(scales.values())
    assert scales.get(2, 0) > 0.2 * count and scales.get(4, 0) > 0.06 * count, scales
    for interpolation in ("bicubic", "box", "lanczos", "nearest"):
        check_against_pillow(56, interpolation, 5)
    scales = check_against_pillow(24)
    assert scales.get(4, 0) > 0.2 * count and scales.get(8, 0) > 0.2 * count, scales


def test_threads_and_decoders_give_the_same_rows():
    with folder() as home:
        source = make_dataset(home / "images", per_class=20, min_side=150, max_side=400)
        keys = {"image_size": 40, "batch_size": 16, "train": 1, "decode": "fast"}
        reference = serve(home / "r", source, ("--threads", 1), **keys)
        assert {shrunk_by(row[1], 40) for row in reference} >= {1, 2, 4}
        for n, (threads, variables) in enumerate([(2, {}), (4, {}), (2, {"PENSTOCK_DECODER": "libjpeg"}), (1, {"PENSTOCK_KERNELS": "c"})]):
            assert serve(home / str(n), source, ("--threads", threads), variables, **keys) == reference, (threads, variables)
        exact = serve(home / "exact", source, **{**keys, "decode": "exact"})
        assert [row[:4] for row in exact] == [row[:4] for row in reference], "the mode changes pixels alone"
        for a, b in zip(exact, reference):
            assert (a[4] == b[4]) == (shrunk_by(a[1], 40) == 1), a[:4]


def test_a_second_visit_gives_the_same_rows():
    """By then there are checkpoints, at which images are entered near their crops."""
    with folder() as home:
        source = make_dataset(home / "images", per_class=20, min_side=150, max_side=400)
        keys = {"image_size": 40, "batch_size": 16, "train": 1, "decode": "fast"}
        assert serve(home / "first", source, **keys) == serve(home / "second", source, **keys)
        seen = []
        with Daemon(home / "first") as daemon:
            for _ in range(2):
                seen.append(rows(daemon.batches(source=source, drop_last=0, epochs=2, seed=3, **keys)))
        assert seen[0] == seen[1]


def test_evaluation_is_shrunk_too():
    with folder() as home:
        source = make_dataset(home / "images", per_class=5, min_side=150, max_side=400)
        keys = {"image_size": 32, "batch_size": 16, "train": 0}
        fast, exact = serve(home / "f", source, decode="fast", **keys), serve(home / "e", source, **keys)
        assert [row[:4] for row in exact] == [row[:4] for row in fast] and fast != exact


def test_small_crops_are_exact():
    with folder() as home:
        source = make_dataset(home / "images", per_class=5, min_side=64, max_side=120)
        keys = {"image_size": 61, "batch_size": 5}
        assert serve(home / "f", source, decode="fast", **keys) == serve(home / "e", source, **keys)


def test_replay_makes_the_rows_again():
    with folder() as home:
        source = make_dataset(home / "images", per_class=10, min_side=150, max_side=400)
        served = serve(home / "d", source, image_size=40, batch_size=30, train=1, decode="fast")
        common = ("--image-size", 40, "--json", "--decode", "fast")
        replayed = json.loads(command_line.run(home, "replay", source, "--seed", 3, "--batch-size", 30, *common)[0])["rows"]
        assert [int(row["crc32"], 16) for row in replayed] == [zlib.crc32(row[4]) for row in served]
        index, crop, _, flags, pixels = served[0]
        one, = json.loads(command_line.run(home, "replay", source, "--index", index, "--crop", ",".join(map(str, crop)),
                                  *(["--flip"] if flags & 1 else []), *common)[0])["rows"]
        assert int(one["crc32"], 16) == zlib.crc32(pixels)
        exact = json.loads(command_line.run(home, "replay", source, "--seed", 3, "--batch-size", 30, "--image-size", 40, "--json")[0])["rows"]
        assert [row["crc32"] for row in exact] != [row["crc32"] for row in replayed]


def state_of(lines):
    return next(line.split(" ", 1)[1] for line in lines if line.startswith("state "))


def test_states_groups_and_status_know_the_mode():
    with folder() as home:
        source = make_dataset(home / "images", per_class=10, min_side=150, max_side=400)
        keys = {"source": source, "image_size": 40, "batch_size": 10, "batches": 1}
        with Daemon(home) as daemon:
            states = {mode: json.loads(state_of(daemon.batches(decode=mode, **keys))) for mode in ("exact", "fast")}
            assert states["exact"]["transform"] != states["fast"]["transform"]
            assert {**states["exact"], "transform": 0} == {**states["fast"], "transform": 0}
            assert json.loads(state_of(daemon.batches(**keys))) == states["exact"], "exact is the default"
            trainer = daemon.trainer(decode="fast", group="g", **{**keys, "batches": 1000, "sleep_ms": 20})
            trainer.line()
            assert [s["decode"] for s in daemon.status()["streams"]] == ["fast"]
            assert "decode" in daemon.trainer(decode="exact", group="g", **keys).error()
            trainer.kill()
            trainer.process.communicate(timeout=LIMIT)


def test_bad_values_are_refused():
    with folder() as home:
        source = make_dataset(home / "images", per_class=2)
        with Daemon(home) as daemon:
            said = daemon.trainer(source=source, decode="faster").error()
            assert "decode: expected exact or fast, got \"faster\"" in said and ":1:" in said, said
        for command in (["bench", source], ["replay", source], ["show", source]):
            command_line.refuse(home, *command, "--decode", "best", says="expected exact or fast")
        command_line.refuse(home, "bench", "stream:a", "--decode", "fast", says="--decode cannot be given")
        config = home / "bad.yaml"
        config.write_text(f"streams:\n  a:\n    source: {source}\n    decode: quick\n")
        done = subprocess.run([tool("penstockd"), "--config", str(config), "--socket", str(home / "s")], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 2 and "bad.yaml:4:13: decode: expected exact or fast" in done.stderr, done


if __name__ == "__main__":
    run_tests(globals())
