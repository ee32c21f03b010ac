"""penstock pack, as a user runs it: what lies in the tars, the same bytes however it was run or ended, and what it refuses."""
import contextlib
import fcntl
import io
import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tarfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import CORPUS, LIMIT, NOBODY, PHOTOGRAPHS, Skip, folder, make_dataset, photographs, run_tests, tool, tools_for

try:
    import PIL
    from PIL import Image
except ImportError:
    Image = None



def pillow():
    if Image is None or PIL.__version__ != "13.0.0":
        raise Skip("Pillow 13.0.0 is not installed")


def environment(home):
    keep = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK") or k == "PENSTOCK_BIN"}
    return {**keep, "XDG_CACHE_HOME": str(home / "cache")}


def run(home, *args, code=0, **keys):
    done = subprocess.run([tool("penstock"), *map(str, args)], env=environment(home), capture_output=True, text=True,
                          timeout=4 * LIMIT, stdin=subprocess.DEVNULL, **keys)
    assert done.returncode == code, f"penstock {' '.join(map(str, args))}: ended with {done.returncode}, not {code}\n{done.stderr}"
    return done.stdout, done.stderr


def pack(home, source, out, *args, code=0, **keys):
    """Its report, and what it said."""
    shown, said = run(home, "pack", source, out, "--json", *args, code=code, **keys)
    return json.loads(shown), said


def limit_files(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def refuse(home, *args, says, code=2, **keys):
    out, err = run(home, "pack", *args, code=code, **keys)
    assert out == "" and err.startswith("penstock: "), (out, err)
    for words in [says] if isinstance(says, str) else says:
        assert words in err, f"expected {words!r} in {err!r}"


def out_folder(home, name="out"):
    (home / name).mkdir()
    return home / name


def contents(path):
    """Name -> bytes of everything in a folder but what readers lay beside tars."""
    return {p.name: p.read_bytes() for p in sorted(path.iterdir()) if p.suffix not in (".idx", ".ckp")}


def manifest(path, stem="x"):
    return json.loads((path / f"{stem}.pack.json").read_text())


def members(path):
    """(name, bytes) of all shards in order; checks what no member may differ in."""
    found = []
    for shard in sorted(path.glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                assert member.isfile() and member.mtime == member.uid == member.gid == 0 and member.mode == 0o644, member
                found.append((member.name, tar.extractfile(member).read()))
    return found


def samples(path):
    """[(key, {extension: bytes})] by WebDataset's rule."""
    grouped = []
    for name, data in members(path):
        head, _, base = name.rpartition("/")
        stem, _, extension = base.partition(".")
        key = f"{head}/{stem}" if head else stem
        if not grouped or grouped[-1][0] != key:
            grouped.append((key, {}))
        assert extension not in grouped[-1][1], name
        grouped[-1][1][extension] = data
    return grouped


def rgb(data):
    """Size and pixels as Pillow has them, or None for what it refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data), formats=["JPEG", "PNG"]) as image:
                return image.size, image.convert("RGB").tobytes()
        except Exception:  # whatever Pillow raises is a refusal
            return None


def orientation(data):
    """2 to 8, or 1: as it lies, which every other value means as well."""
    with Image.open(io.BytesIO(data)) as image:
        value = image.getexif().get(0x0112, 1)
    return value if value in range(2, 9) else 1


# ---- what lies in the tars ----

def test_a_folder_becomes_tars():
    with folder() as home:
        images, out = make_dataset(home / "images", per_class=15), out_folder(home)
        got, said = pack(home, images, out / "x-%06d.tar", "--shard-size", "64K")
        files = sorted(images.rglob("*.jpg"))
        classes = sorted(p.name for p in images.iterdir())
        found = samples(out)
        assert [key for key, _ in found] == [str(p.relative_to(images))[:-4] for p in files]
        assert all(set(parts) == {"jpg", "cls"} for _, parts in found)
        assert [int(parts["cls"]) for _, parts in found] == [classes.index(p.parent.name) for p in files]
        assert got["samples"] == len(files) and got["broken"] == [] and said == ""
        assert got["shards"] > 2 and all(p.stat().st_size <= 65536 for p in out.glob("*.tar"))
        assert got["bytes_in"] == sum(p.stat().st_size for p in files)
        assert got["bytes_out"] == sum(len(parts["jpg"]) for _, parts in found) <= got["bytes_in"]
        assert got["transcoded"] + got["verbatim"] == got["samples"] == sum(got["images"].values())
        if Image:
            assert all(rgb(parts["jpg"]) == rgb(p.read_bytes()) for p, (_, parts) in zip(files, found))
        record = manifest(out)
        assert record["complete"] and not record["lossy"] and record["classes"] == classes and record["next"] == len(files)
        assert [s["name"] for s in record["shards"]] == [p.name for p in sorted(out.glob("*.tar"))]
        assert sum(s["samples"] for s in record["shards"]) == len(files)
        # Our own reader sees what was said.
        checked = json.loads(run(home, "check", out / "x-*.tar", "--json")[0])
        assert (checked["samples"], checked["labelled"], checked["bytes"]) == (len(files), True, got["bytes_out"])
        assert checked["fingerprint"] == got["fingerprint"] == record["fingerprint"] and checked["broken"] == []
        assert got["source_fingerprint"] == record["source"]["fingerprint"]
        # Packed again, nothing changes but the fingerprint that it came from.
        again = out_folder(home, "again")
        second, _ = pack(home, out / "x-*.tar", again / "x-%06d.tar")
        assert second["source_fingerprint"] == got["fingerprint"]
        assert [(k, p["cls"]) for k, p in samples(again)] == [(k, p["cls"]) for k, p in found]


def test_markers_and_no_fallbacks():
    with folder() as home:
        images, out, source = make_dataset(home / "images", per_class=20), out_folder(home), home / "source.tar"
        with tarfile.open(source, "w") as tar:  # small images: out of a folder, tars' headers would leave nothing for markers
            for i, p in enumerate(sorted(images.rglob("*.jpg"))):
                tar.add(p, f"{i:03}.jpg")
        got, _ = pack(home, source, out / "x-%06d.tar")
        assert got["stored_in"] - 60 * 1024 < got["bytes_in"] < got["stored_in"] and got["stored_out"] <= got["stored_in"]
        packed = [parts["jpg"] for _, parts in samples(out)]
        marked = sum(b"\xff\xdd\x00\x04" in data for data in packed)
        assert marked == got["images"]["transcoded"] > 0, got
        bench = json.loads(run(home, "bench", out / "x-*.tar", "--seconds", "0.5", "--json", "--image-size", 64, "-b", 20)[0])
        assert not any(bench["fallbacks"].values()), bench["fallbacks"]
        for interval, words in (("5", b"\xff\xdd\x00\x04\x00\x05"), ("12", b"\xff\xdd\x00\x04\x00\x0c")):
            other = out_folder(home, f"out{interval}")
            pack(home, images, other / "x-%d.tar", "--restart-interval", interval)
            assert any(words in parts["jpg"] for _, parts in samples(other))
        none = out_folder(home, "none")
        pack(home, images, none / "x-%d.tar", "--restart-interval", "0", "--no-verify")
        assert not any(b"\xff\xdd\x00\x04" in parts["jpg"] for _, parts in samples(none))


def test_unlabelled_and_json_labels():
    with folder() as home:
        images = make_dataset(home / "images", per_class=3)
        flat, out = home / "flat", out_folder(home)
        flat.mkdir()
        for p in images.rglob("*.jpg"):
            shutil.copy(p, flat)
        pack(home, flat, out / "x-%d.tar")
        assert all(set(parts) == {"jpg"} for _, parts in samples(out)) and not manifest(out)["source"]["labelled"]
        source = home / "source.tar"
        with tarfile.open(source, "w") as tar:
            for i, p in enumerate(sorted(flat.iterdir())):
                for name, data in ((f"{i}.jpg", p.read_bytes()), (f"{i}.json", b'{"label": %d}' % (i * 7)), (f"{i}.txt", b"words")):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        labels = out_folder(home, "labels")
        pack(home, source, labels / "x-%d.tar")
        assert [(k, p["cls"]) for k, p in samples(labels)] == [(str(i), b"%d" % (7 * i)) for i in range(9)]
        assert all(set(parts) == {"jpg", "cls"} for _, parts in samples(labels))
        bare = out_folder(home, "bare")
        pack(home, source, bare / "x-%d.tar", "--labels", "none")
        assert all(set(parts) == {"jpg"} for _, parts in samples(bare))


def test_keys_never_collide():
    with folder() as home:
        images, out = home / "images", out_folder(home)
        some = sorted(make_dataset(home / "some", per_class=6, classes=2).rglob("*.jpg"))
        deep = "d" * 60 + "/" + "e" * 90
        names = ["a/x.1.jpg", "a/x.2.jpg", "a/x_1.jpg", "a/y.jpg", "a/y.png", "b.c/z.jpg", f"{deep}/{'f' * 120}.jpg", f"{deep}/short.jpg",
                 "g/caf\u00e9.jpg", "g/odd\udcff.jpg", f"g/{'n' * 101}.JPEG"]
        for name, source in zip(names, some):
            path = images / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, path)
        got, _ = pack(home, images, out / "x-%06d.tar")
        found = samples(out)
        keys = [key for key, _ in found]
        assert len(found) == len(names) == len(set(keys)) and got["renamed"] == 4 == manifest(out)["renamed"], (keys, got)
        assert [k for k in keys if k.startswith("a/")] == ["a/x_1", "a/x_2", "a/x_1-2", "a/y", "a/y-2"], keys
        assert "b.c/z" in keys and f"{deep}/{'f' * 120}" in keys and "g/odd\udcff" in keys and f"g/{'n' * 101}" in keys
        assert "4  renamed" in run(home, "pack", images, out / "x-%06d.tar")[0]
        checked = json.loads(run(home, "check", out / "x-*.tar", "--json")[0])
        assert checked["samples"] == len(names) and checked["fingerprint"] == got["fingerprint"]
        assert shutil.which("tar") is None or subprocess.run(
            ["tar", "-tf", out / "x-000000.tar"], capture_output=True, check=True).stdout.count(b"\n") == 2 * len(names)
        # The same key in shard after shard of the source.
        for i in range(3):
            with tarfile.open(home / f"s-{i}.tar", "w") as tar:
                tar.add(some[i], "k/0.jpg")
        same = out_folder(home, "same")
        pack(home, home / "s-{0..2}.tar", same / "x-%d.tar")
        assert [key for key, _ in samples(same)] == ["k/0", "k/0-2", "k/0-3"]


def odd_images(where):
    """Kinds that datasets have besides the usual; name -> what becomes of it."""
    pillow()
    where.mkdir()
    base = Image.effect_noise((97, 61), 60).convert("RGB").resize((194, 122))
    icc = b"\0" * 70000
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "a camera " * 40
    base.save(where / "progressive.jpg", progressive=True, quality=90)
    base.save(where / "icc.jpg", icc_profile=icc, exif=exif, quality=90)
    base.convert("L").save(where / "gray.jpg", quality=90)
    base.convert("CMYK").save(where / "cmyk.jpg", quality=90)
    base.save(where / "picture.png")
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        base.save(where / f"s{sampling.replace(':', '')}.jpg", subsampling=sampling, quality=90)
    base.save(where / "png_inside.jpg", format="PNG")
    base.save(where / "rgb.jpg", keep_rgb=True, quality=90)
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/" tiff:Orientation="3"/>'
    base.save(where / "xmp.jpg", xmp=xmp, quality=90)
    whole = (where / "gray.jpg").read_bytes()
    (where / "junk_behind.jpg").write_bytes(whole + b"thumbnail" * 1000)
    (where / "fill.jpg").write_bytes(whole[:2] + b"\xff\xff" + whole[2:])
    return {"cmyk": "kept_colours", "picture": "kept_png", "png_inside": "kept_png", "fill": "kept_irregular"}


def test_odd_kinds_keep_pixels_and_orientation():
    with folder() as home:
        images = home / "images"
        kept = odd_images(images)
        out = out_folder(home)
        got, _ = pack(home, images, out / "x-%06d.tar")
        packed = {key: parts for key, parts in samples(out)}
        assert got["samples"] == len(list(images.iterdir())) and got["bytes_out"] <= got["bytes_in"]
        for p in images.iterdir():
            parts, before = packed[p.stem], p.read_bytes()
            (extension, after), = parts.items()
            assert rgb(after) == rgb(before), p
            assert orientation(after) == orientation(before), p
            assert (after == before) == (p.stem in kept), p
            assert extension == ("png" if kept.get(p.stem) == "kept_png" else "jpg")
        assert (orientation(packed["icc"]["jpg"]), orientation(packed["xmp"]["jpg"])) == (6, 3)
        with Image.open(io.BytesIO(packed["icc"]["jpg"])) as image:
            assert image.info["icc_profile"] == b"\0" * 70000 and b"camera" not in packed["icc"]["jpg"]
            assert dict(image.getexif()) == {0x0112: 6}
        with Image.open(io.BytesIO(packed["progressive"]["jpg"])) as image:
            assert "progressive" not in image.info
        for how in set(kept.values()):
            assert got["images"][how] == list(kept.values()).count(how), got["images"]
        # What one image may take is bounded: the rest is as it was.
        small = out_folder(home, "small")
        big = Image.effect_noise((2000, 1500), 30).convert("RGB")
        big.save(images / "big.jpg", quality=70)
        got, _ = pack(home, images, small / "x-%d.tar", "--memory", "16M")
        assert got["images"]["kept_memory"] == 1 and got["broken"] == [], got
        assert dict(samples(small))["big"]["jpg"] == (images / "big.jpg").read_bytes()


def test_other_types_keep_their_extensions():
    with folder() as home:
        images = home / "images"
        images.mkdir()
        gray = b"4 4\n255\n"
        numbers = b"0 " * 15 + b"9"
        files = {"raw.ppm": b"P6\n" + gray + bytes(48), "raw.pgm": b"P5\n" + gray + bytes(16), "text.pgm": b"P2\n" + gray + numbers,
                 "text.ppm": b"P3\n" + gray + numbers * 1 + b" " + b"0 " * 32, "named.jpg": b"P5\n" + gray + bytes(16)}
        for name, data in files.items():
            (images / name).write_bytes(data)
        bmp = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54 + 64, 0, 0, 54, 40, 4, 4, 1, 32, 0, 64, 0, 0, 0, 0) + bytes(64)
        (images / "a.bmp").write_bytes(bmp)
        out = out_folder(home)
        got, _ = pack(home, images, out / "x-%06d.tar")
        names = sorted(name for name, _ in members(out))
        assert got["broken"] == [], got
        assert names == ["a.bmp", "named.pgm", "raw-2.ppm", "raw.pgm", "text-2.ppm", "text.pgm"], names
        # The tars are read again, and give the same bytes.
        checked = json.loads(run(home, "check", out / "x-*.tar", "--json")[0])
        assert checked["samples"] == 6 and checked["broken"] == [], checked
        again = out_folder(home, "again")
        pack(home, out / "x-*.tar", again / "x-%06d.tar")
        assert [p.read_bytes() for p in sorted(out.glob("*.tar"))] == [p.read_bytes() for p in sorted(again.glob("*.tar"))]


# ---- real images ----

def test_photographs_without_loss():
    pillow()
    files = {p.stem: p for p in photographs()}
    with folder() as home:
        out = out_folder(home)
        got, _ = pack(home, PHOTOGRAPHS, out / "x-%06d.tar", "--shard-size", "20M")
        found = samples(out)
        assert len(found) == len(files) == got["samples"] and got["bytes_out"] <= got["bytes_in"]
        assert got["images"]["transcoded"] > 0.9 * len(files), got["images"]
        # The tars, headers and all, are not larger than the files that they were made of.
        tars = [p.stat().st_size for p in out.glob("*.tar")]
        assert sum(tars) == got["stored_out"] <= got["stored_in"] == got["bytes_in"] == sum(p.stat().st_size for p in files.values())
        for key, parts in found[::3]:  # pillow_crops.py has crops of all, nightly
            (data,) = parts.values()
            assert rgb(data) == rgb(files[key].read_bytes()), key
            if data[:2] == b"\xff\xd8":
                assert orientation(data) == orientation(files[key].read_bytes()), key
        bench = json.loads(run(home, "bench", out / "x-*.tar", "--seconds", "1", "--json")[0])
        assert not any(bench["fallbacks"].values()), bench["fallbacks"]


def test_corpus_without_loss():
    pillow()
    if not CORPUS.is_dir():
        raise Skip(f"no {CORPUS}")
    with folder() as home:
        images, out = home / "images", out_folder(home)
        images.mkdir()
        for p in CORPUS.iterdir():  # outcome tables may name other kinds of files
            if p.suffix.lower() in (".jpg", ".jpeg", ".png"):
                shutil.copy(p, images)
        got, _ = pack(home, images, out / "x-%06d.tar", code=1)
        files = sorted(images.iterdir(), key=lambda p: os.fsencode(p.name))
        broken = {Path(b["path"]).name for b in got["broken"]}
        accepted = [p for p in files if p.name not in broken]
        found = samples(out)
        assert len(found) == len(accepted) == got["samples"] and got["bytes_out"] <= got["bytes_in"]
        for p, (key, parts) in zip(accepted, found):
            (data,) = parts.values()
            assert rgb(data) == rgb(p.read_bytes()), (p, key)
            if data[:2] == b"\xff\xd8" and rgb(data):
                assert orientation(data) == orientation(p.read_bytes()), p


# ---- lossy ----

def test_lossy():
    with folder() as home:
        images = make_dataset(home / "images", per_class=6, min_side=60, max_side=200)
        out, small = out_folder(home), out_folder(home, "small")
        shown, _ = run(home, "pack", images, out / "x-%06d.tar", "--max-side", 100, "--quality", 80)
        assert shown.startswith("lossy: ") and "encoded again (lossy)" in shown, shown
        assert manifest(out)["lossy"] and manifest(out)["options"]["max_side"] == 100
        got, _ = pack(home, images, small / "x-%06d.tar", "--max-side", 100, "--subsampling", "444")
        assert got["lossy"] and 0 < got["reencoded"] < got["samples"] and got["transcoded"] > 0
        files = {str(p.relative_to(images))[:-4]: p for p in images.rglob("*.jpg")}
        pillow()
        for where, quality, sampling in ((out, 80, 2), (small, 90, 0)):
            for key, parts in samples(where):
                with Image.open(files[key]) as image, Image.open(io.BytesIO(parts["jpg"])) as packed:
                    w, h = image.size
                    longest = max(w, h)
                    size = (w, h) if longest <= 100 else tuple(max(1, (s * 200 + longest) // (2 * longest)) for s in (w, h))
                    assert packed.size == size, (key, packed.size, size)
                    if size != (w, h):
                        theirs = io.BytesIO()
                        image.convert("RGB").resize(size, Image.Resampling.LANCZOS).save(
                            theirs, "JPEG", quality=quality, subsampling=sampling)
                        with Image.open(theirs) as expected:
                            a, b = packed.convert("RGB").tobytes(), expected.convert("RGB").tobytes()
                        assert a == b, key
                    elif where is small:
                        assert packed.tobytes() == image.tobytes()
        odd = home / "odd"
        odd_images(odd)
        again = out_folder(home, "again")
        got, _ = pack(home, odd, again / "x-%d.tar", "--max-side", 64, "--quality", 70, "--subsampling", "keep")
        assert got["reencoded"] == got["samples"] and got["broken"] == []
        packed = {key: parts["jpg"] for key, parts in samples(again)}
        with Image.open(io.BytesIO(packed["gray"])) as image:
            assert image.mode == "L"
        # Profiles stay with pixels of their colors only.
        noise, profiles = Image.effect_noise((64, 64), 60), home / "profiles"
        profiles.mkdir()
        for name, colors, picture in (("gray", b"GRAY", noise), ("rgb", b"RGB ", noise.convert("RGB")), ("cmyk", b"CMYK", noise.convert("CMYK"))):
            picture.save(profiles / f"{name}.jpg", quality=95, icc_profile=b"\0" * 16 + colors + b"\0" * 108)
        last = out_folder(home, "last")
        pack(home, profiles, last / "x-%d.tar", "--quality", 70)
        for name, mode, colors in (("cmyk", "L", None), ("gray", "L", b"GRAY"), ("rgb", "RGB", b"RGB ")):
            with Image.open(io.BytesIO(dict(samples(last))[name]["jpg"])) as image:
                profile = image.info.get("icc_profile")
                assert (image.mode, profile and profile[16:20]) == (mode, colors), name
        assert (orientation(packed["icc"]), orientation(packed["xmp"])) == (6, 3)
        assert all(max(Image.open(io.BytesIO(data)).size) == 64 for data in packed.values())


# ---- the same bytes, whatever happens ----

def test_threads_change_nothing():
    with folder() as home:
        images = make_dataset(home / "images", per_class=30)
        seen = []
        for threads in (1, 2, 7):
            out = out_folder(home, f"out{threads}")
            pack(home, images, out / "x-%06d.tar", "--threads", threads, "--shard-size", "100K")
            seen.append(contents(out))
        assert seen[0] == seen[1] == seen[2] and len(seen[0]) > 4


def test_killed_anywhere_it_goes_on():
    with folder() as home:
        images = make_dataset(home / "images", per_class=40)
        args = ["--shard-size", "64K", "--threads", 2]
        whole = out_folder(home, "whole")
        pack(home, images, whole / "x-%06d.tar", *args)
        expected = contents(whole)
        begin = time.monotonic()
        pack(home, images, out_folder(home, "timed") / "x-%06d.tar", *args)
        length = time.monotonic() - begin
        draw = random.Random(4)
        resumed = 0
        for round_ in range(12):
            out = out_folder(home, f"out{round_}")
            command = [tool("penstock"), "pack", str(images), str(out / "x-%06d.tar"), *map(str, args)]
            for _ in range(3):
                with subprocess.Popen(command, env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                    time.sleep(draw.uniform(0, length * 0.7))
                    process.kill()
            if round_ < 11:
                got, _ = pack(home, images, out / "x-%06d.tar", *args)
                resumed += got["resumed_from"] > 0
            else:  # for people
                done = manifest(out, "x")["next"] if (out / "x.pack.json").exists() else 0
                text, _ = run(home, "pack", images, out / "x-%06d.tar", *args)
                assert (f"continued after {done} samples" in text) == (0 < done < 120), (done, text)
            assert contents(out) == expected, f"round {round_}: {sorted(contents(out))}"
        assert resumed > 0, "no round was ended in the middle"


def test_every_crafted_leftover():
    """What a kill between two steps leaves, made by hand."""
    with folder() as home:
        images = make_dataset(home / "images", per_class=20)
        whole = out_folder(home, "whole")
        args = ["--shard-size", "64K"]
        pack(home, images, whole / "x-%06d.tar", *args)
        expected = contents(whole)
        last = sorted(n for n in expected if n.endswith(".tar"))[-1]

        def check(change, name):
            out = home / name
            shutil.copytree(whole, out)
            change(out)
            pack(home, images, out / "x-%06d.tar", *args)
            assert contents(out) == expected, name

        def unfinished(out):
            """All shards written, the last manifest not."""
            record = manifest(out)
            record["complete"] = False
            (out / "x.pack.json").write_text(json.dumps(record))

        def unrenamed(out):
            unfinished(out)
            (out / last).rename(out / (last + ".part"))

        def litter(out):
            unfinished(out)
            (out / "x-000099.tar.part").write_bytes(b"half a shard")
            (out / "x.pack.json.part").write_bytes(b"{")
            (out / "x.pack.lock").write_bytes(b"")

        def barely_begun(out):
            """The manifest, and the beginning of a shard."""
            for shard in manifest(out)["shards"]:
                (out / shard["name"]).unlink()
            (out / "x.pack.json").write_bytes(first)
            (out / "x-000000.tar.part").write_bytes(expected["x-000000.tar"][:5000])

        # What is written first, by a pack that may write no shard.
        stopped = out_folder(home, "stopped")
        refuse(home, images, stopped / "x-%06d.tar", *args, code=1, says="File too large", preexec_fn=lambda: limit_files(20000))
        first = (stopped / "x.pack.json").read_bytes()
        check(lambda out: None, "done")
        check(unfinished, "unfinished")
        check(unrenamed, "unrenamed")
        check(litter, "litter")
        check(barely_begun, "barely_begun")
        # A shard that is listed but gone, or of another size, is not passed over.
        for name, change in (("gone", lambda p: p.unlink()), ("short", lambda p: p.write_bytes(p.read_bytes()[:-512]))):
            out = home / name
            shutil.copytree(whole, out)
            change(out / last)
            refuse(home, images, out / "x-%06d.tar", *args, says=[last, "put it back"])


def test_no_room_in_the_middle():
    with folder() as home:
        images = make_dataset(home / "images", per_class=30)
        whole, out = out_folder(home, "whole"), out_folder(home)
        args = ["--shard-size", "256K"]
        pack(home, images, whole / "x-%06d.tar", *args)

        refuse(home, images, out / "x-%06d.tar", *args, code=1, says=["File too large", "run the same command again"],
               preexec_fn=lambda: limit_files(100000))
        assert not list(out.glob("*.part")), "an unfinished shard takes no room"
        pack(home, images, out / "x-%06d.tar", *args)
        assert contents(out) == contents(whole)


def test_full_disk():
    with folder() as home:
        images = make_dataset(home / "images", per_class=30)
        disk = out_folder(home, "disk")
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], capture_output=True).returncode:
            raise Skip("no tmpfs can be mounted here")
        try:
            refuse(home, images, disk / "x-%06d.tar", code=1, says=["200.0 KiB free", "pack may need", "make room"])
            assert list(disk.iterdir()) == []
            args = ["--quality", 95, "--shard-size", "64K"]
            refuse(home, images, disk / "y-%06d.tar", *args, code=1, says=["pack may need", "No space left on device", "run the same command again"])
            finished = manifest(disk, "y")["shards"]
            assert finished and not list(disk.glob("*.part"))
            subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
            got, _ = pack(home, images, disk / "y-%06d.tar", *args)
            assert got["resumed_from"] > 0 and manifest(disk, "y")["complete"]
        finally:
            subprocess.run(["umount", disk], check=True)


# ---- what is broken ----

def test_broken_images_are_left_out():
    with folder() as home:
        images, out = make_dataset(home / "images", per_class=20), out_folder(home)
        files = sorted(images.rglob("*.jpg"))
        files[3].write_bytes(files[3].read_bytes()[:400])
        files[7].write_bytes(b"")
        files[17].write_text("a text\n")
        files[59].write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 50)
        got, said = pack(home, images, out / "x-%06d.tar", "--shard-size", "64K", code=1)
        bad = [files[i] for i in (3, 7, 17, 59)]
        assert [(b["index"], b["path"]) for b in got["broken"]] == [(files.index(p), str(p)) for p in bad]
        assert [b["reason"] for b in got["broken"]] == ["truncated", "not-image", "not-image", "corrupt"], got["broken"]
        assert all(f"left out: {p}: " in said for p in bad), said
        assert manifest(out)["broken"] == got["broken"] and manifest(out)["broken_count"] == 4
        assert [k for k, _ in samples(out)] == [str(p.relative_to(images))[:-4] for p in files if p not in bad]
        # Said again, though nothing is left to do; and nothing is written.
        before = contents(out)
        shown, said = run(home, "pack", images, out / "x-%06d.tar", "--shard-size", "64K", code=1)
        assert "nothing left to pack" in shown and "4  broken: left out" in shown and said.count("left out:") == 4
        assert contents(out) == before
        # Nothing but broken ones.
        none = out_folder(home, "none")
        for p in files:
            p.write_text("a text\n")
        got, said = pack(home, images, none / "x-%06d.tar", code=1)
        assert got["samples"] == got["shards"] == 0 and got["broken_count"] == 60
        assert said.count("left out:") == 21 and "40 more" in said, said


# ---- refusals ----

def test_bad_arguments():
    with folder() as home:
        images, out = make_dataset(home / "images", per_class=2), out_folder(home)
        ok = out / "x-%06d.tar"
        cases = [
            ([images], "pack: expected SOURCE OUT-%06d.tar"),
            ([images, out / "x.tar"], "no %06d"),
            ([images, out / "x-%06d"], "does not end with .tar"),
            ([images, out / "x-%06x.tar"], "neither %d nor %0Nd"),
            ([images, out / "x-%6d.tar"], "neither %d nor %0Nd"),
            ([images, out / "x-%06d-%06d.tar"], "more than one %"),
            ([images, out / "x-%06d%s.tar"], "more than one %"),
            ([images, out / "x1%06d.tar"], "a digit next to"),
            ([images, out / ".x-%06d.tar"], "hidden"),
            ([images, home / "o%dt/x-%06d.tar"], "a % in its folder"),
            ([images, out / ("y" * 300 + "-%06d.tar")], "too long"),
            ([images, home / "nowhere/x-%06d.tar"], ["nowhere cannot be opened", "mkdir -p"]),
            ([images, images / "x-%06d.tar"], "inside the source"),
            ([images, images / "../images/x-%06d.tar"], "inside the source"),
            ([home / "gone", ok], "gone"),
            ([images, ok, "--restart-interval", "often"], "--restart-interval: expected"),
            ([images, ok, "--restart-interval", "65536"], "--restart-interval: expected"),
            ([images, ok, "--restart-interval", "-1"], "--restart-interval: expected"),
            ([images, ok, "--quality", "101"], "from 1 to 100"),
            ([images, ok, "--quality", "0"], "from 1 to 100"),
            ([images, ok, "--max-side", "0"], "from 1 to 16384"),
            ([images, ok, "--subsampling", "411", "--quality", "90"], "420|422|444|keep"),
            ([images, ok, "--subsampling", "444"], "add --max-side or --quality"),
            ([images, ok, "--shard-size", "1K"], "at least 64.0 KiB"),
            ([images, ok, "--memory", "1M"], "at least 16.0 MiB"),
            ([images, ok, "--threads", "0"], "from 1 to 1024"),
        ]
        for args, says in cases:
            refuse(home, *args, says=says)
        assert contents(out) == {}, "a refused pack leaves nothing"
        many = make_dataset(home / "many", per_class=80)
        refuse(home, many, out / "x-%01d.tar", "--shard-size", "64K", says="more digits")


def test_other_options_or_another_source_are_refused():
    with folder() as home:
        images, other, out = make_dataset(home / "images", per_class=4), make_dataset(home / "other", per_class=5), out_folder(home)
        ok = out / "x-%06d.tar"
        pack(home, images, ok)
        before = contents(out)
        refuse(home, images, ok, "--quality", 80, says=["--quality is 80 now and was not given then", "choose another output"])
        refuse(home, images, ok, "--restart-interval", "12", says="--restart-interval is 12 now and was row then")
        refuse(home, images, ok, "--shard-size", "2G", says="--shard-size is 2147483648 now")
        refuse(home, images, ok, "--no-verify", says="--no-verify is given now and was not given then")
        refuse(home, other, ok, says=["the source's fingerprint is", "15 samples"])
        refuse(home, images, out / "x_%06d.tar", says="the output is x_%06d.tar now")
        (out / "x.pack.json").write_text("{}")
        refuse(home, images, ok, says="damaged")
        (out / "x.pack.json").write_text(before["x.pack.json"].decode().replace('"samples":12', '"samples":11', 1))
        refuse(home, images, ok, says="now and was")
        (out / "x.pack.json").write_text(before["x.pack.json"].decode().replace('"next":12', '"next":11'))
        refuse(home, images, ok, says="damaged")
        elsewhere = before["x.pack.json"].decode().replace("x-000000.tar", "../x-000000.tar")
        (out / "x.pack.json").write_text(elsewhere)
        refuse(home, images, ok, says="damaged")  # its checksum is of another list
        without, removed = re.subn(r',"check":"[0-9a-f]{16}"', "", elsewhere)
        assert removed == 1, elsewhere
        (out / "x.pack.json").write_text(without)  # as manifests of before were
        refuse(home, images, ok, says="not a shard of")
        (out / "x.pack.json").unlink()
        refuse(home, images, ok, says=["x-000000.tar exists", "nothing is overwritten"])
        assert (out / "x-000000.tar").read_bytes() == before["x-000000.tar"]
        refuse(home, out / "x-*.tar", ok, says="part of the source and would be part of the output")
        refuse(home, out / "x-000000.tar", home / "images/../out/x-%06d.tar", says="would be part of the output")


def test_two_at_once():
    with folder() as home:
        images, out = make_dataset(home / "images", per_class=4), out_folder(home)
        with open(out / "x.pack.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            refuse(home, images, out / "x-%06d.tar", code=1, says=["another penstock pack is writing", "choose another output"])
        pack(home, images, out / "x-%06d.tar")
        assert not (out / "x.pack.lock").exists()
        command = [tool("penstock"), "pack", str(images), str(out / "y-%06d.tar")]
        both = [subprocess.Popen(command, env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
        ends = [(p.communicate(timeout=LIMIT)[1], p.returncode) for p in both]
        assert any(code == 0 for _, code in ends) and all(code == 0 or b"another penstock pack" in err for err, code in ends), ends
        assert manifest(out, "y")["complete"]


def test_no_permission():
    if os.geteuid() == 0:
        raise Skip("root may write everywhere")
    with folder() as home:
        images, out = make_dataset(home / "images", per_class=2), out_folder(home)
        out.chmod(0o555)
        refuse(home, images, out / "x-%06d.tar", code=1, says="Permission denied")
        out.chmod(0o755)


def test_what_storage_refuses_is_not_left_out():
    with tools_for(NOBODY) if os.geteuid() == 0 else contextlib.nullcontext(), folder() as home:
        images, out = make_dataset(home / "images", per_class=4), out_folder(home)
        home.chmod(0o755)
        out.chmod(0o777)
        (home / "cache").mkdir(mode=0o777)
        (home / "cache").chmod(0o777)
        locked = sorted(images.rglob("*.jpg"))[7]
        locked.chmod(0)
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        refuse(home, images, out / "x-%06d.tar", "--shard-size", "64K", code=1, says=["Permission denied", "run the same command again"], **who)
        assert not manifest(out)["complete"] and not manifest(out)["broken"]
        locked.chmod(0o644)
        again = json.loads(run(home, "pack", images, out / "x-%06d.tar", "--shard-size", "64K", "--json", **who)[0])
        assert again["samples"] == len(samples(out)) == 12 and again["broken"] == []


def test_progress_without_a_terminal_is_plain_lines():
    with folder() as home:
        images, out = make_dataset(home / "images", per_class=3), out_folder(home)
        shown, said = run(home, "pack", images, out / "x-%06d.tar")
        assert "9 images in 1 shard" in shown and "fingerprint " in shown and "x.pack.json" in shown, shown
        assert "\r" not in said and "\033" not in said
        assert not [line for line in shown.splitlines() if len(line) > 80 and str(home) not in line], shown


def test_the_cost_is_told_before_it_starts():
    """From a few images: their rate, the threads, and the time for what is left. Broken samples do not prevent it."""
    with folder() as home:
        images, out = make_dataset(home / "images", per_class=12), out_folder(home)
        files = sorted(images.rglob("*.jpg"))
        files[1].write_bytes(b"broken")
        command = [tool("penstock"), "pack", str(images), str(out / "x-%06d.tar"), "--shard-size", "64K", "--threads", "2"]
        with subprocess.Popen(command, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            first = process.stderr.readline()
            rest = process.communicate(timeout=LIMIT)
        told = re.fullmatch(r"penstock: 36 images at about ([\d.,]+) images/s on 2 threads: about \d+ s\n", first)
        assert told and float(told[1].replace(",", "")) > 0, first
        assert "35 images in " in rest[0] and "at about" not in rest[0] + rest[1], rest
        again = out_folder(home, "again")
        got, said = pack(home, images, again / "x-%06d.tar", "--threads", "1", code=1)
        estimate = got["estimate"]
        assert estimate["images"] == 36 and estimate["threads"] == 1 and estimate["images_per_s"] > 0, got
        assert abs(estimate["seconds"] * estimate["images_per_s"] - 36) < 1 and "at about" not in said, (got, said)
        # Nothing is left: nothing is estimated.
        got, said = pack(home, images, again / "x-%06d.tar", "--threads", "1", code=1)
        assert got["estimate"] is None, got


def test_the_cost_of_what_is_left():
    """A run that ended early has packed some: the next one speaks of the others."""
    with folder() as home:
        images, out = make_dataset(home / "images", per_class=12), out_folder(home)
        make_dataset(home / "large", per_class=1, min_side=1500, max_side=1500)
        large = images / "zebra" / "last.jpg"  # the last sample does not fit the limit of a file
        large.parent.mkdir()
        max((home / "large").rglob("*.jpg"), key=lambda p: p.stat().st_size).rename(large)
        refuse(home, images, out / "x-%06d.tar", "--shard-size", "64K", code=1, says=["File too large", "run the same command again"],
               preexec_fn=lambda: limit_files(large.stat().st_size * 3 // 4))
        got, _ = pack(home, images, out / "x-%06d.tar", "--shard-size", "64K")
        assert 0 < got["resumed_from"] < 37 and got["estimate"]["images"] == 37 - got["resumed_from"], got


if __name__ == "__main__":
    run_tests(globals())
