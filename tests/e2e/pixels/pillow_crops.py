"""Random crops of every photograph, in each of the three states that a dataset may be in, equal what Pillow makes of the original.

    pillow_crops.py [untouched] [checkpoints] [packed]        all three without operands

untouched: --no-entry-points. checkpoints: made by `penstock check --index` before, and used from the first row on. packed: the tars
that `penstock pack` writes. PENSTOCK_TEST_CROPS is the number of crops per file: 2 of every third file unless PENSTOCK_TEST_NIGHTLY=1, which
means 20 of every file; where there are few photographs, every file is compared. Every crop is compared; steps back to libjpeg-turbo must
stay under one in a thousand. Needs Pillow 13, numpy and photographs."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, NIGHTLY, Daemon, Skip, folder, photographs, promise, run_tests, tool
from pillow_stream import SIZE, need, records

CROPS = int(os.environ.get("PENSTOCK_TEST_CROPS", "20" if NIGHTLY else "2"))
STATES = ("untouched", "checkpoints", "packed")
EVERY = 1 if NIGHTLY else 3
FEW = 150
BATCHES = 4  # of an epoch
EPOCHS = 2  # of one stream: bounds what lies on the disk


def command(home, *arguments):
    done = subprocess.run([tool("penstock"), *map(str, arguments)], env={**os.environ, "XDG_CACHE_HOME": str(home / "cache")},
                          capture_output=True, text=True, timeout=10 * LIMIT)
    assert done.returncode == 0, f"penstock {arguments[0]}: {done.stderr}"


def chosen(home):
    """A folder of the files that are compared, as many as fill whole batches so that these end with the epoch, and their names there in
    the dataset's order."""
    found = photographs()
    if len(found) > FEW:
        found = found[::EVERY]
    (home / "images").mkdir()
    for file in found[:len(found) // BATCHES * BATCHES]:
        shutil.copyfile(file, home / "images" / file.name)
    return home / "images", sorted((home / "images").iterdir(), key=lambda p: p.name.encode())


def prepare(home, state, images):
    """The source of this state, and the daemon's options."""
    if state == "untouched":
        return images, ["--no-entry-points"]
    if state == "checkpoints":
        command(home, "check", images, "--index")
        return images, []
    command(home, "pack", images, home / "packed-%06d.tar")
    return home / "packed-*.tar", ["--no-entry-points"]


def serve(home, daemon, source, seed, files):
    """A file of the rows of EPOCHS epochs, and the stream's counters while it lives. The trainer has many more epochs to read, and pauses
    between batches, so that it is still there when the counters are read."""
    raw = home / f"raw-{seed}"
    trainer = daemon.trainer(source=source, train=1, batch_size=files // BATCHES, epochs=EPOCHS + 100, seed=seed, raw=raw, sleep_ms=30)
    try:
        seen = 0
        while seen <= EPOCHS * BATCHES:
            line = trainer.line()
            assert line and not line.startswith("error"), trainer.seen[-3:] + [daemon.text()[-2000:]]
            seen += line[:1].isdigit()
        streams = daemon.status()["streams"]
    finally:
        trainer.kill()
    step = 64 + SIZE * SIZE * 3
    with open(raw, "r+b") as file:
        file.truncate(EPOCHS * files * step)
    assert len(streams) == 1, streams
    return raw, streams[0]


def compare(np, Image, image, name, crop, flags, pixels):
    x, y, w, h = crop
    row = image.crop((x, y, x + w, y + h)).resize((SIZE, SIZE), Image.BILINEAR)
    if flags & 1:
        row = row.transpose(Image.FLIP_LEFT_RIGHT)
    assert flags & ~1 == 0 and np.asarray(row).tobytes() == pixels, f"{name} crop {x},{y} {w}x{h} flags {flags}"


def crops_equal(state):
    np, Image = need()
    if sys.argv[1:] and f"test_{state}" not in sys.argv[1:]:
        raise Skip("not asked for")
    seen = fallbacks = 0
    with folder() as home:
        folder_of_images, files = chosen(home)
        images = [Image.open(file).convert("RGB") for file in files]
        source, options = prepare(home, state, folder_of_images)
        with Daemon(home, *options) as daemon:
            for seed in range(-(-CROPS // EPOCHS)):
                raw, stream = serve(home, daemon, source, seed, len(files))
                for index, crop, size, flags, pixels in records(raw):
                    assert images[index].size == size, files[index]
                    compare(np, Image, images[index], f"{state}: {files[index].name}", crop, flags, pixels)
                    seen += 1
                raw.unlink()
                fallbacks += sum(stream["fallbacks"].values())
                found = stream.get("checkpoints", {"used": 0, "made": 0, "dropped": 0})
                assert found["dropped"] == 0 and (found["used"] > len(files)) == (state == "checkpoints"), found
    assert seen >= CROPS * len(files), seen
    assert fallbacks * 1000 < seen, f"{fallbacks} of {seen} stepped back"
    figures = f"{state}: {seen} crops equal, {fallbacks} stepped back"
    print(figures)
    promise(figures)


def test_untouched():
    crops_equal("untouched")


def test_checkpoints():
    crops_equal("checkpoints")


def test_packed():
    crops_equal("packed")


if __name__ == "__main__":
    unknown = [state for state in sys.argv[1:] if state not in STATES]
    if unknown:
        sys.exit(f"pillow_crops.py: {unknown[0]}: expected {', '.join(STATES)}")
    sys.argv[1:] = [f"test_{state}" for state in sys.argv[1:]]
    run_tests(globals())
