#!/usr/bin/env python3
"""What a sample becomes depends on the sample and on the stream's definition, never on the memory budget: huge progressive, CMYK, baseline and
PNG files have the same rows under every budget from the least to 8G, because what does not fit goes through a file; a state goes on under
another budget; the limits are keys; and what a user is told when that file cannot be written."""
import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import INVALID, LIMIT, Daemon, Link, Refused, Skip, folder, run_tests, tool, wait_until
from shapes import stream_of

SUBSTITUTED = 2
STREAM = {"batch_size": 2, "image_size": 32, "train": True, "shuffle": True, "drop_last": False, "seed": 3, "epochs": 1, "prefetch": 2, "max_broken": 1}


def need_pillow():
    try:
        import numpy
        from PIL import Image
    except ImportError as missing:
        raise Skip(f"{missing} (scripts/test makes a virtual environment with both)")
    Image.MAX_IMAGE_PIXELS = None
    return numpy, Image


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(pixels, color, interlaced):
    """`pixels`: (height, width, channels) of big-endian 16 bits. Adam7's passes are slices of them."""
    height, width = pixels.shape[:2]
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)]
    packer, data = zlib.compressobj(1), []
    for y, x, down, right in passes:
        data += [packer.compress(b"\0" + row.tobytes()) for row in pixels[y::down, x::right]]
    head = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"".join(data) + packer.flush()) + chunk(b"IEND", b"")


def make_giants(path):
    numpy, Image = need_pillow()
    noise = numpy.random.default_rng(7).integers(0, 256, (1024, 1024, 4), dtype=numpy.uint8)

    def pixels(width, height, channels, grain):
        """A gradient with noise, `grain` of 256 levels of it."""
        wide = numpy.tile(noise[:, :, :channels] // (256 // grain), (height // 1024 + 1, width // 1024 + 1, 1))[:height, :width]
        return wide + (numpy.arange(width, dtype=numpy.uint16)[None, :, None] * (255 - grain) // width).astype(numpy.uint8)

    def jpeg(name, width, height, mode, grain=8, transform=None, **options):
        channels = {"L": 1, "RGB": 3, "CMYK": 4}[mode]
        data = io.BytesIO()
        Image.fromarray(pixels(width, height, channels, grain).squeeze(), mode).save(data, "JPEG", **options)
        data = bytearray(data.getvalue())
        if transform is not None:
            at = data.index(b"Adobe")
            data[at + 11] = transform
        (path / name).write_bytes(data)

    path.mkdir()
    jpeg("progressive444.jpg", 6000, 4000, "RGB", progressive=True, subsampling=0)
    jpeg("progressive420.jpg", 5000, 3300, "RGB", progressive=True, subsampling=2, quality=85)
    jpeg("cmyk.jpg", 2600, 1800, "CMYK", progressive=True)
    jpeg("ycck.jpg", 1800, 2600, "CMYK", progressive=True, transform=2)
    jpeg("gray.jpg", 7000, 5000, "L", progressive=True)
    jpeg("baseline.jpg", 5000, 4000, "RGB", grain=200, quality=95, subsampling=0)
    jpeg("small.jpg", 300, 200, "RGB")
    wide = pixels(2000, 1300, 3, 250).astype(">u2") * 257
    (path / "sixteen.png").write_bytes(png(wide, 2, False))
    (path / "interlaced.png").write_bytes(png(pixels(3000, 2000, 4, 16).astype(">u2") * 257, 6, True))
    # More pixels than the definition allows, under any budget.
    (path / "vast.png").write_bytes(png(numpy.zeros((10, 10, 1), ">u2"), 0, False).replace(
        struct.pack(">II", 10, 10), struct.pack(">II", 9000, 8000)))
    fixed = (path / "vast.png").read_bytes()
    (path / "vast.png").write_bytes(fixed[:8] + chunk(b"IHDR", fixed[16:29]) + fixed[33:])


GIANTS = None


def giants():
    """Made once; removed at the end."""
    global GIANTS
    if not GIANTS:
        need_pillow()
        place = folder()
        GIANTS = (place, place.__enter__() / "giants")
        make_giants(GIANTS[1])
    return GIANTS[1]


def least_budget(home):
    """What penstockd says that it needs at least."""
    answer = subprocess.run([tool("penstockd"), "--memory", "1M", "--threads", "1", "--socket", home / "run/s.sock"], capture_output=True, text=True,
                            timeout=LIMIT, env={**os.environ, "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home / "state")})
    found = re.search(r"memory: 1.0 MiB is too small for 1 decoding thread: penstockd needs at least (\d+)M", answer.stderr)
    assert answer.returncode != 0 and found, answer.stderr
    return f"{found[1]}M"


def rows_of(home, budget, source, state=None, batches=None, config=None, threads=1, **keys):
    """(rows, the state after them) of a stream of a daemon of its own."""
    home.mkdir(exist_ok=True)
    with Daemon(home, "--memory", budget, "--threads", threads, config=config) as daemon, Link(daemon.socket) as link:
        stream = link.open(source=source, **{**STREAM, **keys}, **({"state": state} if state else {}))
        got = stream.read(batches)
        return [row for _, rows in got for row in rows], stream.state(got[-1][0])


def test_every_budget():
    source = giants()
    with folder() as home:
        least = least_budget(home)
        want, _ = rows_of(home / "8G", "8G", source)
        assert len(want) == 10 and sum(bool(row.flags & SUBSTITUTED) for row in want) == 1, want
        for budget in (least, "64M", "160M", "1G"):
            got, _ = rows_of(home / budget, budget, source)
            assert got == want, (budget, [(a, b) for a, b in zip(got, want) if a != b])
            assert not any((home / budget / "cache").rglob(".penstock-*"))
        got, _ = rows_of(home / "threads", "96M", source, threads=3)
        assert got == want, "three threads"
    print(f"     10 rows, the same under {least}, 64M, 96M with 3 threads, 160M, 1G and 8G")


def test_lists_in_any_order_under_small_budgets():
    """Lists that need whole images: canvases that a worker has no room for go through the permit or a file, with the same rows."""
    source = giants()
    padded = [{"Pad": {"padding": [9, 3], "padding_mode": "reflect"}}, {"RandomRotation": {"degrees": 20, "expand": True}}, {"Resize": {"size": 40}},
              {"RandomCrop": {"size": 32}}]
    chosen = ["RandomVerticalFlip", {"RandomChoice": {"transforms": [{"Resize": {"size": 64, "max_size": 80}}, {"Pad": {"padding": 100}},
                                                                     {"RandomResize": {"min_size": 700, "max_size": 900}}]}},
              {"ColorJitter": {"brightness": 0.4}}, {"RandomResizedCrop": {"size": [24, 32]}}]
    with folder() as home:
        (home / "some").mkdir()
        for name in ("cmyk.jpg", "interlaced.png", "small.jpg"):
            os.link(source / name, home / "some" / name)
        for number, transforms in enumerate((padded, chosen)):
            keys = {"transforms": transforms, "views": 2, "image_size": transforms[-1][list(transforms[-1])[0]]["size"]}
            keys = {**STREAM, "source": home / "some", **keys}
            want = stream_of(home / f"8G-{number}", options=("--memory", "8G", "--threads", "2"), **keys)
            assert len(want) == 6 and not any(row.flags & SUBSTITUTED for row in want) and len({row.pixels for row in want}) == 6
            place = home / f"48M-{number}"
            got = stream_of(place, options=("--memory", "48M", "--threads", "1"), **keys)
            assert got == want, (number, [(a[:6], b[:6]) for a, b in zip(got, want) if a != b])
            assert not any((place / "cache").rglob(".penstock-*"))


def test_state_goes_on_under_another_budget():
    source = giants()
    with folder() as home:
        want, _ = rows_of(home / "all", "2G", source, views=2)
        first, state = rows_of(home / "first", "64M", source, batches=2, views=2, epochs=0)
        rest, _ = rows_of(home / "rest", "1G", source, state=state, views=2)
        assert first + rest == want


def test_limits_are_keys():
    source = giants()
    with folder() as home:
        for keys, refused in ({"max_image_pixels": 20_000_000}, {"gray.jpg", "progressive444.jpg", "vast.png"}), ({"max_file_bytes": 4 << 20}, None):
            if refused is None:
                refused = {file.name for file in source.iterdir() if file.stat().st_size > 4 << 20} | {"vast.png"}
                assert 2 < len(refused) < 10, refused
            names = sorted(file.name for file in source.iterdir())
            for budget in ("64M", "2G"):
                got, state = rows_of(home / f"{next(iter(keys))}-{budget}", budget, source, train=False, shuffle=False, **keys)
                assert {names[row.index] for row in got if row.flags & INVALID} == refused, (keys, budget, got)
            plain = rows_of(home / "plain", "2G", source, batches=1)[1]
            assert plain["transform"] != state["transform"], "the limits are not in the state"


def test_a_notice_says_what_would_hold_them():
    source = giants()
    with folder() as home, Daemon(home, "--memory", "64M", "--threads", "1") as daemon, Link(daemon.socket) as link:
        link.open(source=source, **STREAM).read()
        wait_until(lambda: "a large image needs" in daemon.text() and "a large file needs" in daemon.text(), "the notices")
        for what, have in ("image", "6.7"), ("file", "3.3"):
            found = re.findall(rf"a large {what} needs ([\d.]+) MiB, and the memory budget has ([\d.]+) MiB: such {what}s go through a temporary file in "
                               rf"\S+/cache/penstock, which costs time but changes no batch; memory: (\d+)M would hold it", daemon.text())
            assert len(found) == 1 and found[0][1] == have and int(found[0][2]) > 64, (found, daemon.text())


def test_check_judges_alike():
    source = giants()
    with folder() as home:
        for memory in ("16M", "2G"):
            answer = subprocess.run([tool("penstock"), "check", source, "--json", "-t1", "--memory", memory], capture_output=True, text=True, timeout=LIMIT,
                                    env={**os.environ, "XDG_CACHE_HOME": str(home / "cache")})
            broken = json.loads(answer.stdout)["broken"]
            assert [(one["path"].rsplit("/", 1)[1], one["reason"]) for one in broken] == [("vast.png", "too-many-pixels")], (memory, broken)


def refusal(daemon, source, **keys):
    with Link(daemon.socket) as link:
        try:
            link.open(source=source, **{**STREAM, **keys}).read()
        except Refused as refused:
            return str(refused)
    raise AssertionError("the stream was read")


def test_a_folder_that_is_full_or_cannot_be_written():
    if not shutil.which("prlimit"):
        raise Skip("no prlimit (util-linux)")
    source = giants()
    with folder() as home:
        for name in ("coded", "file"):
            (home / name).mkdir()
        os.link(source / "progressive420.jpg", home / "coded/a.jpg")
        os.link(source / "baseline.jpg", home / "file/a.jpg")
        keys = {"batch_size": 1}
        # The limit on the size of a file stands for a disk that is full.
        (home / "full").mkdir()
        with Daemon(home / "full", "--memory", "64M", "--threads", "1", prefix=("prlimit", "--fsize=6291456")) as daemon:
            text = refusal(daemon, home / "coded", **keys)
            assert re.search(r"sample 0: 5000 x 3300 pixels need [\d.]+ MiB to decode, and the memory budget has [\d.]+ MiB for large images; the rest "
                             r"goes to a temporary file in /.*cache/penstock, which fails: File too large; make room there, set cache_dir", text), text
            text = refusal(daemon, home / "file", **keys)
            assert re.search(r"sample 0 \(a.jpg\) has [\d.]+ MiB, more than the memory budget has for large files; it is read through a temporary file "
                             r"in /.*cache/penstock, which fails: File too large; make room there, set cache_dir", text), text
        (home / "none").mkdir()
        (home / "none/cache").write_text("a file")
        with Daemon(home / "none", "--memory", "64M", "--threads", "1") as daemon:
            for part in ("coded", "file"):
                text = refusal(daemon, home / part, **keys)
                assert "which fails: Not a directory; make room there, set cache_dir" in text, text
        # With room for them in memory, no file is needed.
        (home / "none2").mkdir()
        (home / "none2/cache").write_text("a file")
        with Daemon(home / "none2", "--memory", "2G", "--threads", "1") as daemon, Link(daemon.socket) as link:
            for part in ("coded", "file"):
                assert len(link.open(source=home / part, **{**STREAM, **keys}).read()) == 1


def test_confined():
    """The file may be made by a daemon that may write nowhere but in its own folders."""
    source = giants()
    with folder() as home:
        want, _ = rows_of(home / "plain", "64M", source, batches=3, epochs=0)
        got, _ = rows_of(home / "confined", "64M", source, batches=3, epochs=0, config=f"roots: [{source}]\n")
        assert got == want


if __name__ == "__main__":
    try:
        run_tests(globals())
    finally:
        if GIANTS:
            GIANTS[0].__exit__(None, None, None)
