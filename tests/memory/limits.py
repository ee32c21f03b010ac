#!/usr/bin/env python3
"""A daemon in a cgroup of its budget and 5 %, fed with what wants memory: nothing is killed, and what it keeps stays flat.

    limits.py [PATTERN ...]

Bombs: headers of 4 gigapixels, PNGs that inflate to hundreds of megabytes, progressive and interlaced giants, files whose every bit costs as much
as it can (tests/bench/hostile.h), between good images. Broken: a tar of nothing but broken files, read again and again. Good images come out
the same as from a daemon with all the memory there is. Where no cgroup may be made the same is measured from outside (Pss) without the
kernel's help."""
import io
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tarfile
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import INVALID, LIMIT, NIGHTLY, Daemon, Skip, folder, make_dataset, promise, run_tests, tool  # noqa: E402
from memory_limit import MIB, MemoryLimit  # noqa: E402

BUDGET = 160 * MIB
OVER = 1.05
EPOCHS = 40 if NIGHTLY else 2  # of the bombs
DECODES = 1_000_000 if NIGHTLY else 20_000
GIANTS = ([("empty", 8000, 8000, 3), ("empty", 4000, 4000, 13), ("empty", 65500, 244, 13), ("refine", 2000, 2000, 11), ("dense", 1500, 1500, 6),
           ("components", 2000, 2000, 3), ("baseline", 3000, 2000, 1), ("late", 2000, 2000, 1), ("restart", 2000, 1000, 1), ("odd", 1000, 1000, 1),
           ("empty", 65500, 65500, 2)])
if not NIGHTLY:
    GIANTS = GIANTS[::3]
# Flat: what it keeps at the end over what it kept at a tenth of the way.
FLAT = 2 * MIB


class Place:
    """Where a daemon is measured: a cgroup with the limit, or, where there is none, its processes' sizes from outside."""

    def __init__(self, budget):
        self.most = int(budget * OVER)
        try:
            self.cgroup = MemoryLimit(self.most)
        except Skip as reason:
            self.cgroup = None
            print(f"     no cgroup, measured by Pss: {reason}", flush=True)
        self.peak = 0

    def prefix(self):
        return self.cgroup.prefix() if self.cgroup else ()

    def look(self, daemon):
        kept = self.cgroup.kept() if self.cgroup else pss_bytes(daemon.process.pid)
        self.peak = max(self.peak, kept)
        return kept

    def check(self, daemon):
        assert daemon.process.poll() is None, "the daemon has ended"
        assert not self.cgroup or self.cgroup.oom_kills() == 0, "the kernel killed for memory"
        assert self.peak <= self.most, f"kept {self.peak / MIB:.1f} MiB of {self.most / MIB:.1f}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.cgroup:
            self.cgroup.__exit__()


def pss_bytes(pid):
    """Of a process and its children, the flight recorder's witness among them."""
    total, pids = 0, [pid]
    while pids:
        one = pids.pop()
        try:
            pids += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
            total += next(int(line.split()[1]) for line in open(f"/proc/{one}/smaps_rollup") if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            pass
    return total


# ---- files that want memory ----

def png_chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_bomb(path, width, height, rows, bits=8, color=2, interlace=0, before=b""):
    """`rows` of its rows are there: deflated zeros."""
    pixel = bits * {2: 3, 3: 1, 6: 4}[color] // 8
    # Adam7: where each pass begins and how far its pixels lie apart.
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)] if interlace else [(0, 0, 1, 1)]
    squeeze = zlib.compressobj(9)
    data = b"".join(squeeze.compress(bytes(1 + (width - x + dx - 1) // dx * pixel)) for x, y, dx, dy in passes
                    for _ in range((rows - y + dy - 1) // dy)) + squeeze.flush()
    head = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlace)
    palette = png_chunk(b"PLTE", bytes(768)) if color == 3 else b""
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + before + palette + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b""))


def make_bombs(place, good):
    place.mkdir()
    for number, giant in enumerate(GIANTS):
        subprocess.run([tool("hostile_files"), *map(str, giant), str(place / f"giant-{number:02}.jpg")], check=True, timeout=LIMIT)
    png_bomb(place / "wide.png", 30000, 30000, 40)  # 2.7 GB said, cut
    png_bomb(place / "deep.png", 7000, 7000, 7000, bits=16, color=6)  # 392 MB inflated
    png_bomb(place / "woven.png", 4000, 4000, 4000, bits=16, color=6, interlace=1)
    png_bomb(place / "palette.png", 20000, 2000, 2000, color=3)
    text = zlib.compress(bytes(64 * MIB), 9)
    png_bomb(place / "text.png", 64, 64, 64, before=png_chunk(b"zTXt", b"k\0\0" + text) + png_chunk(b"iCCP", b"p\0\0" + text))
    jpeg = good.read_bytes()
    (place / "apps.jpg").write_bytes(jpeg[:2] + b"".join(b"\xff\xe1\xff\xff" + bytes(65533) for _ in range(400)) + jpeg[2:])
    (place / "tail.jpg").write_bytes(jpeg + bytes(40 * MIB))
    at = jpeg.index(b"\xff\xc0")
    (place / "said.jpg").write_bytes(jpeg[:at + 5] + b"\xff\xff\xff\xff" + jpeg[at + 9:])  # 65535 x 65535


ROW_BYTES, FLAGS_AT = 64 + 3 * 64 * 64, 40  # a record, pixels


def valid_rows(raw):
    """Records and pixels that dump_batches wrote down, without the rows that are marked as invalid."""
    data = raw.read_bytes()
    assert data and len(data) % ROW_BYTES == 0
    rows = [data[at:at + ROW_BYTES] for at in range(0, len(data), ROW_BYTES)]
    return [row for row in rows if not row[FLAGS_AT] & INVALID]


def test_bombs():
    """In every epoch each row that comes is the same as with all the memory there is, and what is kept is what was kept after the first."""
    with folder() as home:
        images = make_dataset(home / "images", per_class=10, classes=3, min_side=200, max_side=400)
        classes = sorted(p for p in images.iterdir() if p.is_dir())
        make_bombs(home / "bombs", next(p for p in sorted(classes[0].iterdir()) if p.is_file()))
        for bomb in sorted((home / "bombs").iterdir()):
            bomb.rename(classes[0] / f"z-{bomb.name}")
        read = {"source": images, "batch_size": 8, "image_size": 64, "train": 1, "on_broken": "mark", "max_broken": 1, "drop_last": 0,
                "epochs": EPOCHS}
        known = min(EPOCHS, 3)
        (home / "free").mkdir()
        (home / "tight").mkdir()
        with Daemon(home / "free", "--memory", "3G", "--threads", "2") as daemon:
            daemon.batches(raw=home / "free.raw", **{**read, "epochs": known})
            freely = settled(daemon)
        with Place(BUDGET) as place:
            with Daemon(home / "tight", "--memory", f"{BUDGET // MIB}M", "--threads", "2", "--cache", "on", prefix=place.prefix()) as daemon:
                trainer = daemon.trainer(raw=home / "tight.raw", **read)
                kept = []
                while (line := trainer.line())[:1].isdigit():
                    now = place.look(daemon)
                    if int(line.split()[6]) & 1:
                        kept.append(now)
                trainer.finish()
                tightly = settled(daemon)
                place.check(daemon)
        print(f"     broken with 3 GiB: {freely}; with {BUDGET // MIB} MiB: {tightly}", flush=True)
        want, got = valid_rows(home / "free.raw"), valid_rows(home / "tight.raw")
        samples = (sum(freely.values()) + len(want)) // known
        assert len(kept) == EPOCHS and freely and sum(tightly.values()) + len(got) == samples * EPOCHS
        # The same images in each epoch, with crops of their own: of the first epochs all are known.
        assert 30 * EPOCHS <= len(got) and set(got[:30 * known]) <= set(want), "a row that is not what it should be"
        middle = EPOCHS // 2
        # In the first epochs the cache takes its share.
        assert not NIGHTLY or max(kept[middle:]) <= max(kept[:middle]) + FLAT, [round(k / MIB, 1) for k in kept]
        promise(f"{len(GIANTS) + 8} bombs between 30 images, {EPOCHS} epochs: no kill under {place.most / MIB:.0f} MiB, at most "
                f"{place.peak / MIB:.1f} MiB kept of a budget of {BUDGET // MIB}; most in the first half {max(kept[:middle]) / MIB:.1f}, in the "
                f"second {max(kept[middle:]) / MIB:.1f}; {len(got)} rows right, {sum(tightly.values())} refused")


def broken_of(daemon):
    """Reasons and counts of all broken samples since it began."""
    with socket.socket(socket.AF_UNIX) as http:
        http.connect(str(Path(daemon.socket).with_name("http.sock")))
        http.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: http.recv(65536), b"")).decode()
    counts = re.findall(r'^penstock_broken_samples_total\{reason="(.*?)"\} (\d+)', text, re.MULTILINE)
    return {reason: int(count) for reason, count in counts if count != "0"}


def settled(daemon):
    """The same once what is published each second has caught up."""
    seen = broken_of(daemon)
    while True:
        time.sleep(1.2)
        before, seen = seen, broken_of(daemon)
        if seen == before:
            return seen


def make_broken(path, good):
    """A tar of a thousand broken files, each of another kind or cut elsewhere."""
    draw, whole = random.Random(3), good.read_bytes()
    with tarfile.open(path, "w") as tar:
        for number in range(1000):
            data = bytearray(whole)
            kind = number % 5
            if kind == 0:
                del data[draw.randrange(2, len(data) // 2):]
            elif kind == 1:
                data = bytearray(draw.randbytes(draw.randrange(1, 4000)))
            elif kind == 2:
                data[:200] = draw.randbytes(200)
            elif kind == 3:
                data = bytearray(b"\xff\xd8\xff" + draw.randbytes(draw.randrange(2000)))
            else:
                data = bytearray(b"\x89PNG\r\n\x1a\n" + draw.randbytes(draw.randrange(2000)))
            for name, body in ((f"{number:04}.jpg", bytes(data)), (f"{number:04}.cls", b"0")):
                info = tarfile.TarInfo(name)
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body))
    return path


def test_images_that_spill():
    """Each borrows all memory for large images and gives it back: it does not pile up."""
    budget, most = 64 * MIB, 0
    with folder() as home:
        place = home / "images" / "a"
        place.mkdir(parents=True)
        subprocess.run([tool("hostile_files"), "empty", "4000", "3000", "3", str(place / "00.jpg")], check=True, timeout=LIMIT)
        for i in range(1, 16):
            os.link(place / "00.jpg", place / f"{i:02}.jpg")
        with Daemon(home, "--memory", f"{budget // MIB}M", "--threads", "2") as daemon:
            trainer = daemon.trainer(source=home / "images", batch_size=4, image_size=64, epochs=4)
            while trainer.line()[:1].isdigit():
                status = Path(f"/proc/{daemon.process.pid}/status").read_text()
                most = max(most, int(re.search(r"RssAnon:\s+(\d+)", status)[1]) * 1024)
            trainer.finish()
            assert "go through a temporary file" in daemon.text(), daemon.text()
    print(f"     {most / MIB:.1f} MiB of {budget // MIB}", flush=True)
    assert 0 < most <= budget


def test_nothing_but_broken():
    with folder() as home:
        images = make_dataset(home / "images", per_class=1, classes=2, min_side=100, max_side=120)
        source = make_broken(home / "broken.tar", next(images.rglob("*.jp*g")))
        batch = 250
        with Place(BUDGET) as place:
            with Daemon(home, "--memory", f"{BUDGET // MIB}M", "--threads", "2", prefix=place.prefix()) as daemon:
                trainer = daemon.trainer(source=source, batch_size=batch, image_size=32, train=0, on_broken="mark", max_broken=1,
                                         epochs=DECODES // 1000)
                early, last = 0, time.monotonic()
                for number in range(DECODES // batch):
                    line = trainer.line()
                    assert line[:1].isdigit(), line
                    if number == DECODES // batch // 10 or time.monotonic() - last > 0.2:
                        now, last = place.look(daemon), time.monotonic()
                        early = early or (now if number >= DECODES // batch // 10 else 0)
                now = place.look(daemon)
                trainer.finish()
                broken = settled(daemon)
                place.check(daemon)
        assert now - early <= FLAT, f"{early / MIB:.1f} MiB after a tenth, {now / MIB:.1f} at the end"
        promise(f"{DECODES} decodes of broken files ({broken}): no kill under {place.most / MIB:.0f} MiB, at most {place.peak / MIB:.1f} MiB kept; "
                f"{early / MIB:.1f} after a tenth, {now / MIB:.1f} at the end")


if __name__ == "__main__":
    os.environ.pop("MALLOC_PERTURB_", None)  # touches memory that nobody uses
    run_tests(globals())
