"""Exact mode equals Pillow: every row that a stream serves is made again with Pillow from its record, and must be the same bytes.

Runs over ../shared/data/imagenet, all files, random crops and the evaluation recipe. Needs Pillow 13 and numpy; skipped without them."""
import re

from harness import IMAGENET, SLOW, Daemon, Skip, folder, rows, run_tests

SIZE = 224


def need():
    try:
        import numpy
        import PIL
        from PIL import Image
    except ImportError as missing:
        raise Skip(f"{missing} (scripts/test makes a virtual environment with Pillow and numpy)")
    if int(PIL.__version__.split(".")[0]) < 13:
        raise Skip(f"Pillow {PIL.__version__} resizes in another order than 13")
    if not IMAGENET.is_dir():
        raise Skip(f"{IMAGENET} is not there")
    return numpy, Image


def records(raw):
    import struct
    data = raw.read_bytes()
    step = 64 + SIZE * SIZE * 3
    assert data and len(data) % step == 0
    for at in range(0, len(data), step):
        index, label, x, y, w, h, sw, sh, flags, _, position, _ = struct.unpack_from("<QqIIIIIIIIQQ", data, at)
        yield index, (x, y, w, h), (sw, sh), flags, data[at + 64:at + step]


def names():
    """Keys in the dataset's order: the name less its extension, bytewise."""
    return sorted(IMAGENET.iterdir(), key=lambda p: p.stem.encode())


def served(train, epochs, **options):
    with folder() as home:
        raw = home / "raw"
        with Daemon(home) as daemon:
            daemon.batches(source=IMAGENET, train=train, shuffle=train, drop_last=0, epochs=epochs, seed=3, raw=raw,
                           **options)
        yield from records(raw)


def test_random_crops_of_every_file():
    np, Image = need()
    files, seen, flipped = names(), set(), 0
    for index, (x, y, w, h), size, flags, pixels in served(1, 2):
        image = Image.open(files[index]).convert("RGB")
        assert image.size == size, files[index]
        row = image.crop((x, y, x + w, y + h)).resize((SIZE, SIZE), Image.BILINEAR)
        if flags & 1:
            row = row.transpose(Image.FLIP_LEFT_RIGHT)
            flipped += 1
        assert flags & ~1 == 0, (files[index], flags)
        assert np.asarray(row).tobytes() == pixels, f"{files[index]} crop {x},{y} {w}x{h} flags {flags}"
        seen.add(index)
    assert len(seen) == len(files) == 500
    assert 350 < flipped < 650


def test_every_interpolation():
    """Every tenth file: what the filters do is compared elsewhere."""
    np, Image = need()
    files = names()
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
    files, seen = names(), []
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
    assert seen == list(range(500))


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
        with Daemon(home / "less", "--memory", "96M", "--threads", 4) if (home / "less").mkdir() is None else None as daemon:
            error = daemon.trainer(source=home / "giants", batch_size=6, prefetch=2).error()
            assert "memory" in error, error


if __name__ == "__main__":
    run_tests(globals())
