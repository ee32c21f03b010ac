"""`penstock decode`: its pixels against Pillow's, what it writes where, and what it says to files and names that are wrong."""
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import environment, refuse, run
from harness import CORPUS, LIMIT, Skip, folder, make_dataset, run_tests, tool


def pillow():
    try:
        import PIL.Image
    except ImportError as error:
        raise Skip("Pillow is not installed") from error
    if PIL.__version__ != "13.0.0":
        raise Skip(f"Pillow is {PIL.__version__}, not 13.0.0")
    return PIL.Image


def image_of(home):
    return sorted(make_dataset(home / "images", per_class=2, min_side=90, max_side=160).rglob("*.jpg"))[0]


def described(home, *args, code=0, **keys):
    return json.loads(run(home, "decode", *args, "--json", code=code, **keys)[0])["images"]


def ppm(data):
    """(width, height, RGB bytes)"""
    magic, size, most, pixels = data.split(b"\n", 3)
    assert (magic, most) == (b"P6", b"255"), data[:20]
    width, height = map(int, size.split())
    assert len(pixels) == width * height * 3
    return width, height, pixels


# ---- pixels ----

def test_pixels_are_pillows():
    Image = pillow()
    with folder() as home:
        name = image_of(home)
        whole = Image.open(name).convert("RGB")
        box = (7, 5, 7 + 64, 5 + 50)
        wanted = {
            (): whole,
            ("--crop", "7,5,64,50"): whole.crop(box),
            ("--resize", "40x31"): whole.resize((40, 31), Image.BILINEAR),
            ("--resize", "300x211"): whole.resize((300, 211), Image.BILINEAR),
            ("--resize", "60x33", "--interpolation", "lanczos"): whole.resize((60, 33), Image.LANCZOS),
            ("--resize", "61x300", "--interpolation=bicubic"): whole.resize((61, 300), Image.BICUBIC),
            ("--resize", "31x40", "--interpolation", "nearest"): whole.resize((31, 40), Image.NEAREST),
            ("--crop", "7,5,64,50", "--resize", "1x7"): whole.crop(box).resize((1, 7), Image.BILINEAR),
        }
        for args, picture in wanted.items():
            for decoder in ("own", "libjpeg", "compare"):
                for end in ("png", "ppm"):
                    out = home / f"out.{end}"
                    got, = described(home, name, *args, "-o", out, "--decoder", decoder)
                    assert Image.open(out).mode == "RGB" and Image.open(out).size == picture.size == tuple(got["size"])
                    assert Image.open(out).tobytes() == picture.tobytes(), (args, decoder, end)
                    assert got["crc32"] == f"{zlib.crc32(picture.tobytes()):08x}"
                    assert got["decoder"] == ("libjpeg-turbo" if decoder == "libjpeg" else "own"), got
        assert sorted(p.name for p in home.iterdir()) == ["images", "out.png", "out.ppm", "tmp"], "temporary files were left"


def test_kinds_are_named():
    Image = pillow()
    with folder() as home:
        picture = Image.open(image_of(home)).convert("RGB")
        kinds = [
            ({"quality": 80, "subsampling": 2}, "JPEG", "4:2:0", "own", None),
            ({"quality": 80, "subsampling": 1}, "JPEG", "4:2:2", "own", None),
            ({"quality": 80, "subsampling": 0, "restart_marker_blocks": 5}, "JPEG", "4:4:4", "own", None),
            ({"quality": 80, "subsampling": 0, "progressive": True}, "progressive JPEG", "4:4:4", "own", None),
        ]
        for keys, kind, sampling, decoder, stepback in kinds:
            picture.save(home / "a.jpg", **keys)
            got, = described(home, home / "a.jpg", "--decoder", "compare")
            assert (got["kind"], got["sampling"], got["decoder"], got.get("stepback")) == (kind, sampling, decoder, stepback), got
            assert got["restart_interval"] == keys.get("restart_marker_blocks", 0), got
            assert got["compare"]["compared"] == (decoder == "own") and got["compare"].get("equal", True), got
            text = run(home, "decode", home / "a.jpg", "-d", "compare")[0]
            assert ("equal: " in text) == (decoder == "own") and kind in text and decoder in text, text
        picture.convert("P").save(home / "a.png")
        got, = described(home, home / "a.png", "-d", "compare")
        assert (got["kind"], got["decoder"], got["compare"]) == ("PNG, 8 bit, palette", "libpng", {"compared": False}), got
        picture.convert("CMYK").save(home / "c.jpg")
        assert described(home, home / "c.jpg")[0]["colour"] == "CMYK"


def test_corpus_ends_as_it_should():
    """Whatever the file: 0 or 1, an outcome, and never two decoders that differ."""
    if not CORPUS.is_dir():
        raise Skip("no ../shared/corpus/jpeg")
    with folder() as home:
        files = sorted(p for p in CORPUS.iterdir() if p.is_file())
        images = described(home, *files, "-d", "compare", code=1)
        assert [i["path"] for i in images] == list(map(str, files))
        compared = [i for i in images if i.get("compare", {}).get("compared")]
        assert len(compared) > 50 and all(i["compare"]["equal"] for i in compared)
        broken = [i for i in images if i["outcome"] != "ok"]
        assert broken and all(i["message"] and "crc32" not in i for i in broken)


def test_environment_chooses_and_the_option_wins():
    with folder() as home:
        name = image_of(home)
        def decoder(*args, **variables):
            return described(home, name, *args, env=environment(home, **variables))[0]["decoder"]
        assert decoder() == "own"
        assert decoder(PENSTOCK_DECODER="libjpeg") == "libjpeg-turbo"
        assert decoder("--decoder", "own", PENSTOCK_DECODER="libjpeg") == "own"
        assert decoder("--decoder", "libjpeg", PENSTOCK_DECODER="own") == "libjpeg-turbo"
        refuse(home, "decode", name, says="PENSTOCK_DECODER=best", env=environment(home, PENSTOCK_DECODER="best"))


# ---- where from, where to ----

def test_tar_members_and_stdin():
    with folder() as home:
        name = image_of(home)
        wanted, = described(home, name)
        shard = home / "a!b.tar"
        with tarfile.open(shard, "w") as tar:
            tar.add(name, "x/one!two.jpg")
            tar.addfile(tarfile.TarInfo("empty.jpg"), io.BytesIO())
            link = tarfile.TarInfo("link.jpg")
            link.type, link.linkname = tarfile.SYMTYPE, "x/one!two.jpg"
            tar.addfile(link)
        got, = described(home, f"{shard}!x/one!two.jpg", "-o", f"{home}/new/")
        assert got["crc32"] == wanted["crc32"] and got["output"] == f"{home}/new/one!two.png", got
        data = name.read_bytes()
        done = subprocess.run([tool("penstock"), "decode", "-", "--json"], input=data, capture_output=True, env=environment(home), timeout=LIMIT)
        assert done.returncode == 0 and json.loads(done.stdout)["images"][0]["crc32"] == wanted["crc32"], done
        done = subprocess.run([tool("penstock"), "decode", name, "-o", "-"], capture_output=True, env=environment(home), timeout=LIMIT)
        width, height, pixels = ppm(done.stdout)
        assert (width, height) == (wanted["width"], wanted["height"]) and f"{zlib.crc32(pixels):08x}" == wanted["crc32"]
        refuse(home, "decode", f"{shard}!x/three.jpg", says=["has no member x/three.jpg", str(shard)])
        refuse(home, "decode", f"{shard}!link.jpg", says="not a regular file in the tar")
        refuse(home, "decode", f"{shard}!empty.jpg", says=["empty.jpg: not-image", "an empty file"], code=1)
        refuse(home, "decode", f"{name}!x", says=[f"{name}"], code=2)
        cut = home / "cut.tar"
        cut.write_bytes(shard.read_bytes()[:1500])
        refuse(home, "decode", f"{cut}!x/three.jpg", says=str(cut))


def test_what_is_there_is_kept():
    with folder() as home:
        name = image_of(home)
        out, old = home / "out", b"mine"
        out.mkdir()
        target = out / f"{name.stem}.png"
        target.write_bytes(old)
        refuse(home, "decode", name, "-o", out, says=["the file exists", "--force", str(target)], code=1)
        assert target.read_bytes() == old
        run(home, "decode", name, "-o", out, "--force")
        assert target.read_bytes()[:4] == b"\x89PNG"
        named = home / "named.ppm"
        named.write_bytes(old)
        named.chmod(0o600)
        run(home, "decode", name, "-o", named)
        assert ppm(named.read_bytes())
        link, behind = home / "link.png", home / "behind.png"
        behind.write_bytes(old)
        link.symlink_to(behind)
        run(home, "decode", name, "-o", link)
        assert link.is_symlink() and behind.read_bytes()[:4] == b"\x89PNG"
        err = run(home, "decode", name, name, "-o", home / "two", code=1)[1]
        assert "another image of the same name" in err
        # Nothing is written onto what is read, by no name.
        same = home / "same.png"
        os.link(name, same)
        for path in (name.parent / ".." / name.parent.name / name.name, same):
            before = name.read_bytes()
            refuse(home, "decode", name, "-o", path, "--format", "png", says="is not overwritten")
            assert name.read_bytes() == before
        # Nor onto what is read later, or from standard input, or the shard of a member.
        later = home / "later"
        later.mkdir()
        shutil.copy(name, later / "a.jpg")
        run(home, "decode", name, "-o", later / "a.png")
        before = (later / "a.png").read_bytes()
        refuse(home, "decode", later / "a.jpg", later / "a.png", "-o", later, "--force", says="is not overwritten")
        with open(later / "a.png", "rb") as stdin:
            done = subprocess.run([tool("penstock"), "decode", "-", "-o", str(later / "a.png")], env=environment(home),
                                  capture_output=True, text=True, timeout=LIMIT, stdin=stdin)
        assert done.returncode == 2 and "is not overwritten" in done.stderr, done
        assert (later / "a.png").read_bytes() == before
        assert not [p for p in home.rglob("*.png.*")], "temporary files were left"


def test_output_that_cannot_be_written():
    with folder() as home:
        name = image_of(home)
        refuse(home, "decode", name, "-o", "/dev/full", "--format", "ppm", says=["/dev/full", "No space left"], code=1)
        refuse(home, "decode", name, "-o", "/dev/full", "--format", "png", says=["/dev/full", "No space left"], code=1)
        refuse(home, "decode", name, "-o", home / "no/where.png", says=["no/where.png", "No such file"], code=1)
        with open("/dev/full", "w") as full:
            done = subprocess.run([tool("penstock"), "decode", name, "-o", "-"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  env=environment(home), timeout=LIMIT)
        assert done.returncode == 1 and "No space left" in done.stderr, done.stderr
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([tool("penstock"), "decode", name, "-o", "-"], stdout=write, stderr=subprocess.PIPE, text=True,
                              env=environment(home), timeout=LIMIT)
        os.close(write)
        assert done.returncode == 1 and "Broken pipe" in done.stderr, done.stderr


# ---- what is wrong ----

def test_broken_images():
    with folder() as home:
        name = image_of(home)
        (home / "cut.jpg").write_bytes(name.read_bytes()[:-200])
        (home / "text.jpg").write_text("hello")
        for args in ([], ["-d", "libjpeg"], ["-d", "compare"], ["-o", home / "x.png"], ["--crop", "0,0,8,8"]):
            refuse(home, "decode", home / "cut.jpg", *args, says=["cut.jpg: truncated: "], code=1)
        assert not (home / "x.png").exists()
        refuse(home, "decode", home / "text.jpg", says=["text.jpg: not-image: "], code=1)
        images = described(home, home / "cut.jpg", name, home / "text.jpg", code=1)
        assert [i["outcome"] for i in images] == ["truncated", "ok", "not-image"]
        out, err = run(home, "decode", home / "gone.jpg", name, code=2)
        assert "gone.jpg" in err and str(name) in out, "one that is not there keeps the others from nothing"
        (home / "\x1b[31m.jpg").write_text("hello")
        assert "\x1b" not in refuse(home, "decode", home / "\x1b[31m.jpg", says="?[31m.jpg", code=1)


def test_bad_command_lines():
    with folder() as home:
        name = image_of(home)
        cases = [
            (["decode"], "decode: expected FILE..."),
            (["decode", name, "--decoder", "best"], "own|libjpeg|compare"),
            (["decode", name, "--crop", "1,2,3"], "X,Y,W,H"),
            (["decode", name, "--crop", "1,2,3,0"], "at least 1"),
            (["decode", name, "--crop", "1,2,3,4,5"], "X,Y,W,H"),
            (["decode", name, "--crop", "-1,2,3,4"], "X,Y,W,H"),
            (["decode", name, "--crop", "0,0,9999,1"], "is not inside the image"),
            (["decode", name, "--crop", "65535,65535,65535,65535"], "is not inside the image"),
            (["decode", name, "--resize", "10"], "WxH"),
            (["decode", name, "--resize", "0x5"], "from 1"),
            (["decode", name, "--resize", "70000x5"], "65535"),
            (["decode", name, "--interpolation", "cubic"], "bilinear|bicubic|box"),
            (["decode", name, "--output", "x.gif"], ".png or .ppm"),
            (["decode", name, "--output", "-", "--json"], "both write to standard output"),
            (["decode", name, name, "--output", "-"], "takes one image"),
            (["decode", name, "--format", "gif"], "png|ppm"),
            (["decode", name, "--memory", "1"], "at least 1.0 MiB"),
            (["decode", name, name, "--output", name], "is a file"),
            (["decode", home], "is a folder"),
            (["decode", home / "gone.jpg"], "No such file"),
        ]
        for args, says in cases:
            refuse(home, *args, says=says)
        refuse(home, "decode", name, "--resize", "20000x20000", says="a quarter of --memory", code=1)
        with open(home / "large.jpg", "wb") as file:
            file.write(name.read_bytes())
            file.truncate(1 << 20)
        refuse(home, "decode", home / "large.jpg", "--memory", "2M", says=["large.jpg has more than 512.0 KiB"], code=1)
        refuse(home, "decode", "/dev/zero", "--memory", "2M", says="/dev/zero has more than", code=1)


if __name__ == "__main__":
    run_tests(globals())
