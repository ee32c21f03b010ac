"""Exact mode equals Pillow: every row that a stream serves is made again with Pillow from its record, and must be the same bytes. Random
crops of every file: pillow_crops.py.

Runs over all photographs, with random crops and the evaluation recipe. Skipped without photographs, Pillow 13 or numpy."""
import math
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import PHOTOGRAPHS, SLOW, Daemon, Skip, folder, photographs, rows, run_tests

SIZE = 224
EVERY = 5  # of the rows of lists of transforms, what is made again; of the plain recipes' all


def need():
    try:
        import numpy
        import PIL
        from PIL import Image
    except ImportError as missing:
        raise Skip(f"{missing} (scripts/install-deps makes a virtual environment with Pillow and numpy)")
    if int(PIL.__version__.split(".")[0]) < 13:
        raise Skip(f"Pillow {PIL.__version__} resizes in another order than 13")
    photographs()
    return numpy, Image


def records(raw, size=SIZE):
    import struct
    data = raw.read_bytes()
    step = 64 + size * size * 3
    assert data and len(data) % step == 0
    for at in range(0, len(data), step):
        index, label, x, y, w, h, sw, sh, flags, _, position, _ = struct.unpack_from("<QqIIIIIIIIQQ", data, at)
        yield index, (x, y, w, h), (sw, sh), flags, data[at + 64:at + step]


def served(train, epochs, size=SIZE, **options):
    with folder() as home:
        raw = home / "raw"
        with Daemon(home) as daemon:
            daemon.batches(source=PHOTOGRAPHS, train=train, shuffle=train, drop_last=0, epochs=epochs, seed=3, raw=raw,
                           **options)
        yield from records(raw, size)


def test_every_interpolation():
    """Every tenth file: what the filters do is compared elsewhere."""
    np, Image = need()
    files = photographs()
    for filter in ("bicubic", "box", "hamming", "lanczos", "nearest"):
        rows = 0
        for index, (x, y, w, h), _, flags, pixels in served(1, 1, interpolation=filter):
            rows += 1
            if rows % 10:
                continue
            image = Image.open(files[index]).convert("RGB").crop((x, y, x + w, y + h))
            row = image.resize((SIZE, SIZE), Image.Resampling[filter.upper()])
            if flags & 1:
                row = row.transpose(Image.FLIP_LEFT_RIGHT)
            assert np.asarray(row).tobytes() == pixels, f"{filter}: {files[index]} crop {x},{y} {w}x{h}"
        assert rows == len(files)


def test_evaluation_of_every_file():
    np, Image = need()
    files, seen = photographs(), []
    resize = int(SIZE * 256 / 224)
    for index, crop, (w, h), flags, pixels in served(0, 1):
        image = Image.open(files[index]).convert("RGB")
        assert image.size == (w, h) and crop == (0, 0, w, h) and flags == 0
        short, long = (w, h) if w <= h else (h, w)
        new_short, new_long = resize, int(resize * long / short)
        ow, oh = (new_short, new_long) if w <= h else (new_long, new_short)
        resized = image.resize((ow, oh), Image.BILINEAR)
        top, left = int(round((oh - SIZE) / 2.0)), int(round((ow - SIZE) / 2.0))
        assert np.asarray(resized.crop((left, top, left + SIZE, top + SIZE))).tobytes() == pixels, files[index]
        seen.append(index)
    assert seen == list(range(len(files)))


def listed(transforms, train, size, **options):
    """What `transforms` serves: of every file the record and the row."""
    import json
    return served(train, 1, size, transforms=json.dumps(transforms), **options)


def flips(Image, row, flags):
    assert flags & ~17 == 0, flags
    if flags & 1:
        row = row.transpose(Image.FLIP_LEFT_RIGHT)
    return row.transpose(Image.FLIP_TOP_BOTTOM) if flags & 16 else row


def test_a_list_with_a_random_crop():
    """As torchvision's references train at 160: scale from 0.35, bicubic, flips never, always and upside down."""
    np, Image = need()
    files = photographs()
    for p, vertical, filter in ((0, 0.25, "bilinear"), (1, None, "bicubic")):
        crop = {"RandomResizedCrop": {"size": 160, "scale": [0.35, 1], "ratio": [0.75, 1.25], "interpolation": filter}}
        down = [] if vertical is None else [{"RandomVerticalFlip": {"p": vertical}}]
        rows = flipped = 0
        for index, (x, y, w, h), size, flags, pixels in listed([crop, {"RandomHorizontalFlip": {"p": p}}, *down], 1, 160):
            if rows % EVERY == 0:
                image = Image.open(files[index]).convert("RGB")
                assert image.size == size, files[index]
                row = image.crop((x, y, x + w, y + h)).resize((160, 160), Image.Resampling[filter.upper()])
                assert np.asarray(flips(Image, row, flags)).tobytes() == pixels, f"{files[index]} crop {x},{y} {w}x{h} flags {flags}"
            assert flags & 1 == p
            # Sides are rounded to pixels, and where nothing fits the crop is as much of the middle as the ratio allows.
            assert w * h > 0.34 * size[0] * size[1] or not 0.75 < size[0] / size[1] < 1.25, (files[index], w, h)
            flipped += flags >> 4
            rows += 1
        assert rows == len(files)
        expected = rows * (vertical or 0)
        assert abs(flipped - expected) <= 5.5 * math.sqrt(expected * (1 - (vertical or 0))), (flipped, rows)


def test_a_list_with_a_centre_crop():
    """Resize of the shorter side, in training and to another number than evaluation's; of both sides, with a flip in evaluation."""
    np, Image = need()
    files = photographs()
    centre = [{"Resize": {"size": 232}}, {"CenterCrop": {"size": 224}}]
    exact = [{"Resize": {"size": [160, 160], "interpolation": "bicubic"}}, {"RandomHorizontalFlip": {"p": 0.5}}]
    for transforms, side, train in ((centre, 224, 1), (exact, 160, 0)):
        seen = []
        for index, crop, (w, h), flags, pixels in listed(transforms, train, side):
            seen.append(index)
            if len(seen) % EVERY:
                continue
            image = Image.open(files[index]).convert("RGB")
            assert image.size == (w, h) and crop == (0, 0, w, h)
            if side == 160:
                row = flips(Image, image.resize((160, 160), Image.BICUBIC), flags)
            else:
                assert flags == 0
                ow, oh = (232, int(232 * h / w)) if w <= h else (int(232 * w / h), 232)
                top, left = int(round((oh - side) / 2.0)), int(round((ow - side) / 2.0))
                row = image.resize((ow, oh), Image.BILINEAR).crop((left, top, left + side, top + side))
            assert np.asarray(row).tobytes() == pixels, files[index]
        assert sorted(seen) == list(range(len(files))) and (seen == sorted(seen)) != bool(train)


def test_a_list_is_replayed_and_told():
    """`penstock replay` makes the same rows, from the epoch and from a record; `status` has the list."""
    import json
    import subprocess
    import zlib

    from harness import tool
    need()
    transforms = [{"RandomResizedCrop": {"size": 96, "scale": [0.5, 0.9]}}, {"RandomVerticalFlip": {"p": 0.5}}]
    text = json.dumps(transforms)
    with folder() as home:
        def replay(*arguments):
            answer = subprocess.run([tool("penstock"), "replay", PHOTOGRAPHS, "--json", "--transforms", text, *map(str, arguments)],
                                    env=daemon.environment, capture_output=True, text=True, check=True)
            return json.loads(answer.stdout)["rows"]

        raw = home / "raw"
        with Daemon(home) as daemon:
            daemon.batches(source=PHOTOGRAPHS, batch_size=16, batches=1, seed=7, raw=raw, transforms=text)
            trainer = daemon.trainer(source=PHOTOGRAPHS, transforms=text, hold=1, sleep_ms=20000)
            trainer.line()
            told = daemon.status()["streams"][0]
            trainer.kill()
        assert told["image_size"] == 96 and [list(step) for step in told["transforms"]] == [list(step) for step in transforms]
        served = list(records(raw, 96))
        rows = replay("--batch-size", 16, "--seed", 7)
        assert len(rows) == len(served) == 16
        for row, (index, crop, size, flags, pixels) in zip(rows, served):
            assert (row["index"], tuple(row["crop"]), tuple(row["source_size"])) == (index, crop, size)
            assert row["flipped_vertically"] == bool(flags & 16) and not row["flipped"]
            assert row["crc32"] == f"{zlib.crc32(pixels):08x}"
        index, crop, _, flags, pixels = next(record for record in served if record[3] & 16)
        [row] = replay("--index", index, "--crop", ",".join(map(str, crop)), "--flip-vertical")
        assert row["crc32"] == f"{zlib.crc32(pixels):08x}"


def test_giants_take_turns_within_the_budget():
    """Progressive photographs whose coefficients and files are both large: they share two pools, so they must neither deadlock nor add up."""
    np, Image = need()
    with folder() as home:
        (home / "giants").mkdir()
        noise = np.random.default_rng(0).integers(0, 255, (375, 500, 3), dtype=np.uint8)
        for i in range(6):
            image = Image.fromarray(np.roll(noise, i * 40, 1)).resize((4000, 3000), Image.BICUBIC)
            image.save(home / f"giants/{i}.jpg", quality=97, progressive=True)
        assert all(f.stat().st_size > 4 << 20 for f in (home / "giants").iterdir()), "larger than a quarter of the arena"
        with Daemon(home, "--memory", "320M", "--threads", 4) as daemon:
            lines = daemon.batches(source=home / "giants", batch_size=6, prefetch=2, epochs=3, seed=1)
            assert lines[-1] == "end" and len(rows(lines)) == 3
            peak = int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{daemon.process.pid}/status").read())[1])
            assert peak < 320 * 1024 or SLOW > 1, f"{peak} KiB at the peak (sanitizers multiply it)"
        # A budget that holds none of them makes the same rows; the rest of each image is in a file meanwhile.
        (home / "less").mkdir()
        with Daemon(home / "less", "--memory", "96M", "--threads", 4) as daemon:
            less = daemon.batches(source=home / "giants", batch_size=6, prefetch=2, epochs=1, seed=1)
            assert rows(less) == rows(lines)[:1] and less[-1] == "end"
            peak = int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{daemon.process.pid}/status").read())[1])
            assert peak < 96 * 1024 or SLOW > 1, f"{peak} KiB at the peak (sanitizers multiply it)"


def test_a_list_in_any_order():
    """Whole images, and rows that `penstock replay` makes again. The model draws as the stream does."""
    import json
    import struct
    import subprocess
    import zlib

    from harness import tool
    np, Image = need()
    from sequence_model import expected
    files, size, rows = photographs(), 96, 0
    steps = [{"RandomHorizontalFlip": {"p": 0.5}}, {"Pad": {"padding": [9, 3], "padding_mode": "reflect"}},
             {"RandomApply": {"transforms": [{"RandomRotation": {"degrees": 20, "expand": True}}], "p": 0.5}},
             {"ResizeKeepRatio": {"size": 120, "longest": 0.5}}, {"RandomCrop": {"size": size, "pad_if_needed": True}}]
    text = json.dumps(steps)
    with folder() as home:
        raw = home / "raw"
        with Daemon(home) as daemon:
            daemon.batches(source=PHOTOGRAPHS, train=1, drop_last=0, epochs=1, seed=3, raw=raw, transforms=text)
            replay = [tool("penstock"), "replay", PHOTOGRAPHS, "--json", "--seed", "3", "--transforms", text]
            answer = subprocess.run(replay, env=daemon.environment, capture_output=True, check=True).stdout
        data, step = raw.read_bytes(), 64 + size * size * 3
    sums = {row["position"]: row["crc32"] for row in json.loads(answer)["rows"]}
    for at in range(0, len(data), step):
        index, _, x, y, w, h, sw, sh, flags, _, position, _ = struct.unpack_from("<QqIIIIIIIIQQ", data, at)
        assert (x, y, w, h) == (0, 0, sw, sh) and flags == 0, files[index]
        pixels = data[at + 64:at + step]
        if position in sums:
            assert f"{zlib.crc32(pixels):08x}" == sums.pop(position), files[index]
        rows += 1
        if rows % (4 * EVERY) == 0:
            wanted = expected(Image.open(files[index]).convert("RGB"), steps, (3, 0, position, 0))
            assert np.asarray(wanted).tobytes() == pixels, files[index]
    assert rows == len(files) and not sums


if __name__ == "__main__":
    run_tests(globals())
