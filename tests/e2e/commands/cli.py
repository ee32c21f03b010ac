"""The command as a user types it: usage, output, what it leaves behind, and above all how it refuses bad input."""
import collections
import contextlib
import json
import os
import resource
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness
from command_line import assert_clean, assert_same, children, environment, is_daemon, refuse, replayed, run, served, start
from harness import LIMIT, Daemon, Skip, folder, make_dataset, run_tests, tool, wait_until

BENCH_KEYS = ["images_per_s", "batch_size", "threads", "trainers", "seconds", "images", "first_batch_s", "batch_p50_ms", "batch_p99_ms",
              "cpu_s", "peak_memory_bytes", "bytes_read", "stages", "decode_stages", "fallbacks", "broken", "checkpoints", "cache", "remote",
              "verdict", "remedy", "share", "trainer_images_per_s", "announce_p50_us", "announce_p99_us",
              "batch_ms", "wait_ms", "waits", "trainer_waits", "cgroup_peak_bytes", "cgroup_peak_exact", "step_ms", "rate", "series", "cold", "accelerators", "bottleneck"]


def break_samples(images):
    """Breaks two files of a dataset: one is cut, one is not an image. [(path, reason)] in the dataset's order."""
    files = sorted(images.rglob("*.jpg"))
    cut, none = files[3], files[17]
    cut.write_bytes(cut.read_bytes()[:400])
    none.write_text("this is a text\n")
    return [(str(cut), "truncated"), (str(none), "not-image")]


# ---- usage ----

CENTRE = "[Resize: {size: 9}, CenterCrop: {size: 8}]"


def test_bad_command_lines():
    cases = [
        (["bnech", "x"], 'did you mean "bench"'),
        (["levitate"], "`penstock --help` lists them"),
        (["bench"], "bench: expected SOURCE"),
        (["check", "a", "b"], '"b" is one more'),
        (["status", "x"], "takes no operand"),
        (["bench", "x", "--thread", "2"], "did you mean --threads"),
        (["bench", "x", "--bacth-size=2"], "did you mean --batch-size"),
        (["bench", "x", "--sed", "4"], "did you mean --seed?"),
        (["bench", "x", "--st", "1"], "did you mean --std?"),
        (["bench", "x", "--split", "[:5]", "--indices", "x.npy"], "--split cannot be written beside --indices: "),
        (["bench", "x", "--mean", "[0, 0, 0]"], "--mean needs --dtype float32, float16 or bfloat16: "),
        (["bench", "x", "--weights", "balanced", "--transforms", CENTRE, "--interpolation", "box"], "--interpolation cannot be written beside --transforms: "),
        (["top", "--interval", "0"], 'seconds, from 0.2 to 60, got "0"'),
        (["top", "--interval", "0.1"], 'seconds, from 0.2 to 60, got "0.1"'),
        (["top", "--interval", "61"], 'seconds, from 0.2 to 60, got "61"'),
        (["bench", "x", "--duration", "4"], "bench has no option --duration; did you mean --seconds?"),
        (["plan", "x", "--duration", "4"], "`penstock plan --help` lists them"),
        (["bench", "x", "--no-checkpoints", "--no-entry-points"], "and both are given: leave out --no-checkpoints"),
        (["status", "--no-checkpoints"], "status has no option --no-checkpoints"),
        (["bench", "x", "--image-size", "{0: 64, 1: 96}"], 'got "{0: 64, 1: 96}"; for sizes by epoch name a stream'),
        (["show", "x", "--image-size={0: 64}"], "for sizes by epoch name a stream"),
        (["bench", "x", "-q"], "no option -q"),
        (["bench", "x", "--threads"], "--threads: expected a value"),
        (["bench", "x", "--threads", "0"], "from 1 to 1024"),
        (["bench", "x", "--threads", "2x"], 'got "2x"'),
        (["bench", "x", "--threads", "-1"], 'got "-1"'),
        (["bench", "x", "--threads", "99999999999999999999999"], "from 1 to 1024"),
        (["bench", "x", "--trainers=65"], "from 1 to 64"),
        (["bench", "x", "--seconds", "0"], "more than 0"),
        (["bench", "x", "--seconds", "nan"], "more than 0"),
        (["bench", "x", "--memory", "lots"], "such as 128M"),
        (["bench", "x", "--memory", "12"], "at least 1.0 MiB"),
        (["bench", "x", "--io", "fast"], "auto|buffered|direct"),
        (["bench", "x", "--reader="], "auto|io_uring|pread"),
        (["bench", "x", "--max-broken", "2"], "at most 1"),
        (["bench", "x", "--json=1"], "takes no value"),
        (["bench", "stream:a", "--memory", "96M"], "--memory cannot be given"),
        (["bench", "stream:a", "--share", "private"], "all trainers of stream:a share it"),
        (["bench", "x", "--share", "some"], "--share: expected one of all|split|private"),
        (["bench", "x", "--distinct-seeds"], "--distinct-seeds needs --share private"),
        (["show", "stream:a", "--seed", "1"], "--seed cannot be given"),
        (["show", "x", "--rows", "0"], "from 1 to 4096"),
        (["show", "x", "--output", ""], "got an empty text"),
        (["replay", "x", "--crop", "1,2,3,4"], "give its --index"),
        (["replay", "x", "--index", "1"], "also needs the record's --crop"),
        (["replay", "x", "--index", "1", "--crop", "0,0,1,1", "--batch", "1"], "--batch cannot be given"),
        (["replay", "x", "--flip-vertical"], "--flip-vertical belongs to a record: give its --index"),
        (["plan", "x", "--transforms", "[ColorJitter]"], "--transforms:1:1: transforms: no operation gives all images one size"),
        (["bench", "x", "--transforms", "[CenterCrop: {size: 8}, ColourJitter]"], 'no operation "ColourJitter"; did you mean "ColorJitter"?'),
        (["replay", "x", "--transforms", "[CenterCrop: {size: 8}, RandomApply: {transforms: [RandomInvert: {p: 2}]}]"],
         "--transforms:1:70: RandomInvert: p: expected a number from 0 to 1"),
        (["replay", "x", "--transforms", "[CenterCrop: {size: 8}, RandomErasing: {value: random}]"], '--transforms: RandomErasing: value: "random"'),
        (["show", "x", "--transforms", "[Resize: {size: 9}]"], "images would differ in size"),
        (["bench", "x", "--image-size", "9", "--transforms", CENTRE], "--image-size: expected 8, the size that --transforms makes, or nothing; got 9"),
        (["replay", "x", "--interpolation", "box", "--transforms", CENTRE], "--interpolation cannot be written beside --transforms"),
        (["bench", "x", "--compare", "--transforms", CENTRE], "so --transforms cannot be given"),
        (["bench", "x", "--sweep", "image-size=8,16", "--transforms", CENTRE], "so --sweep image-size cannot be given"),
        (["show", "stream:a", "--transforms", CENTRE], "--transforms cannot be given"),
        (["state", "{}", "--transforms", CENTRE], "--transforms belongs to the stream that should resume"),
        (["stop", "--force"], "no option --force"),
    ]
    with folder() as home:
        for args, says in cases:
            refuse(home, *args, says=says)
        out, err = run(home, code=2)
        assert out == "" and err.startswith("Usage: penstock COMMAND")


def test_help_is_for_terminals():
    with folder() as home:
        top, _ = run(home, "--help")
        assert run(home, "help")[0] == top
        for name in ("bench", "cache", "check", "decode", "pack", "plan", "replay", "show", "state", "status", "stop", "top", "why"):
            assert f"  {name}" in top
            text, err = run(home, name, "--help")
            assert err == "" and text.startswith(f"Usage: penstock {name}")
            assert run(home, "help", name)[0] == text
            wide = [line for line in (top + text).splitlines() if len(line) > 80]
            assert not wide, wide
        release, images, datasets, unpacks, urls = run(home, "--version")[0].splitlines()
        assert re.fullmatch(r"datasets: folder, WebDataset tar, Parquet, TFRecord, MDS, LitData, ZIP, LMDB, RecordIO, CIFAR, MNIST idx", datasets), datasets
        assert re.match(r"unpacks: .*zlib", unpacks), unpacks
        assert re.match(r"urls: (none|.*libcurl)", urls), urls
        assert re.fullmatch(r"images: JPEG, PNG, (WebP, )?(TIFF, )?BMP, PNM, GIF", images), images
        daemon = subprocess.run([harness.tool("penstockd"), "--version"], capture_output=True, text=True, check=True).stdout
        assert daemon.splitlines() == [release.replace("penstock", "penstockd"), images, datasets, unpacks, urls], daemon
        assert release == f"penstock {(harness.ROOT / 'CMakeLists.txt').read_text().split('VERSION ')[2].split()[0]}"


def options_of(text):
    """Long options, and the short ones beside them, in a help text or a manual page."""
    return (set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) | set(re.findall(r"(?<![\w-])-[a-zA-Z](?=, |\*, )", text))) - {"--help", "-h"}


def test_the_manual_and_help_name_the_same_options():
    man = harness.ROOT / "docs" / "man"
    with folder() as home:
        both = options_of(run(home, "status", "--help")[0]) | options_of(run(home, "stop", "--help")[0])
        assert both == options_of((man / "penstock-status.1.scd").read_text())
        top = run(home, "--help")[0]
        names = re.findall(r"^  ([a-z]+) ", top, re.M)
        assert len(names) >= 8, top
        for name in set(names) - {"status", "stop"}:
            shown, written = options_of(run(home, name, "--help")[0]), options_of((man / f"penstock-{name}.1.scd").read_text())
            # Pages name options of others and an old name, and show leaves the letters of bench's options to bench's page.
            elsewhere = {"bench": {"--index", "--no-checkpoints"}}.get(name, set())
            letters = {option for option in shown if option[1] != "-"} if name in ("replay", "show") else set()
            assert shown - letters <= written and written - elsewhere <= shown, (name, sorted(shown ^ written))
        for name in names:
            assert f"*{name}*" in (man / "penstock.1.scd").read_text(), name
        done = subprocess.run([tool("penstockd"), "--help"], capture_output=True, text=True, timeout=LIMIT, check=True)
        assert not [line for line in done.stdout.splitlines() if len(line) > 80], done.stdout
        assert options_of(done.stdout) == options_of((man / "penstockd.8.scd").read_text()) - {"--index", "--json", "--unix-socket", "--no-checkpoints"}


def test_options_anywhere():
    with folder() as home:
        images = make_dataset(home / "images", per_class=2)
        wanted = json.loads(run(home, "check", images, "--threads", "1", "--index-only", "--json")[0])
        for args in (["--json", "--index-only", images, "-t1"], ["-j", "--threads=1", "--index-only", "--", images]):
            assert json.loads(run(home, "check", *args)[0])["fingerprint"] == wanted["fingerprint"]


def test_output_that_cannot_be_written():
    with folder() as home:
        images = make_dataset(home / "images")
        with open("/dev/full", "w") as full:
            done = subprocess.run([tool("penstock"), "replay", images, "-b", "20"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  env=environment(home), timeout=LIMIT)
        assert done.returncode == 1 and "cannot write the output: No space left" in done.stderr, done.stderr
        read, write = os.pipe()
        os.close(read)
        for args in (["replay", images, "-b", "20"], ["bench", images, "-b", "8", "--seconds", "0.2", "--json"]):
            done = subprocess.run([tool("penstock"), *args], stdout=write, stderr=subprocess.PIPE, text=True, env=environment(home),
                                  timeout=LIMIT)
            assert done.returncode == 1 and done.stderr == "", done
        os.close(write)
        assert_clean(home)


# ---- check ----

def test_check_says_what_is_there():
    with folder() as home:
        images = make_dataset(home / "images", per_class=5)
        got = json.loads(run(home, "check", images, "--json")[0])
        assert (got["samples"], got["decoded"], got["broken"], got["classes"], got["labelled"]) == (15, 15, [], 3, True), got
        assert got["bytes"] == sum(p.stat().st_size for p in images.rglob("*.jpg"))
        assert got["machine"]["cpus"] >= 1 and got["use"]["threads"] == max(1, got["machine"]["cpus"] - 1)
        text, err = run(home, "check", images, "--threads", "1")
        assert err == "", "a bar belongs on a terminal alone"
        for words in ("folder of class folders", "3 classes: beach, bricks, forest", "this machine", "what will be used", "no image is broken"):
            assert words in text, text
        assert not [line for line in text.splitlines()[1:] if len(line) > 80]


def test_check_lists_what_is_broken():
    with folder() as home:
        images = make_dataset(home / "images", per_class=10)
        expected = break_samples(images)
        for threads in (1, 5):
            got = json.loads(run(home, "check", images, "--json", "--threads", threads, code=1)[0])
            assert [(b["path"], b["reason"]) for b in got["broken"]] == expected, got["broken"]
            assert got["samples"] == 30
        text = run(home, "check", images, code=1)[0]
        assert "2 broken:" in text and all(path in text and reason in text for path, reason in expected)
        assert json.loads(run(home, "check", images, "--index-only", "--json")[0])["decoded"] == 0, "an index needs no decoding"


def test_names_of_a_dataset_steer_no_terminal():
    with folder() as home:
        images = make_dataset(home / "images", per_class=4)
        name = "\x1b[31mred\nforged"
        (images / sorted(os.listdir(images))[0] / f"{name}.jpg").write_text("no image")
        text = run(home, "check", images, code=1)[0]
        assert "?[31mred?forged.jpg" in text and "\x1b" not in text, text
        assert name in json.loads(run(home, "check", images, "--json", code=1)[0])["broken"][0]["path"]
        text = run(home, "replay", images, "-b", 13, "--eval", "--image-size", 32)[0]
        assert "?[31mred?forged.jpg" in text and "\x1b" not in text, text
        classes = make_dataset(home / "classes", per_class=2)
        next(path for path in sorted(classes.iterdir()) if path.is_dir()).rename(classes / name)
        text = run(home, "check", classes, "--index-only")[0]
        assert "?[31mred?forged" in text and "\x1b" not in text, text
        err = refuse(home, "check", home / name, says="?[31mred?forged")
        assert len(err.splitlines()) == 1, err
        images = make_dataset(home / name, per_class=4)
        for command in (["plan", "-b", 4], ["bench", "-b", 4, "--image-size", 32, "--seconds", 0.1]):
            text = run(home, command[0], images, *command[1:])[0]
            assert text.splitlines()[0].endswith("?[31mred?forged") and "\x1b" not in text, text


def test_check_of_what_it_left_beside_the_tars():
    """A glob that matched all files of a folder matches the same ones when the indexes are there too."""
    with folder() as home:
        images = make_dataset(home / "images", per_class=4)
        (home / "shards").mkdir()
        with tarfile.open(home / "shards" / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for path in sorted(images.rglob("*.jpg")):
                tar.add(path, path.name)
        for turn in range(2):
            assert json.loads(run(home, "check", home / "shards" / "*", "--json")[0])["samples"] == 12
        assert (home / "shards" / "a.tar.idx").exists()
        (home / "other").mkdir()
        got = json.loads(run(home, "check", "../other/.././images/", "--json", cwd=home / "other")[0])
        assert got["index_s"] > 0
        assert json.loads(run(home, "check", images, "--json")[0])["index_s"] == 0, "another name for the same folder"


def test_check_reads_a_large_file_within_its_memory():
    """A PNG padded with a chunk of 3 MiB: more than a thread's buffer, and more than a small --memory has, so that it goes through a file."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    with folder() as home:
        (home / "flat").mkdir()
        picture = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
        picture += chunk(b"prVt", bytes(3 << 20)) + chunk(b"IDAT", zlib.compress(bytes(14))) + chunk(b"IEND", b"")
        (home / "flat/a.png").write_bytes(picture)
        assert json.loads(run(home, "check", home / "flat", "--json", "-t1")[0])["broken"] == []
        assert json.loads(run(home, "check", home / "flat", "--json", "-t1", "--memory", "8M")[0])["broken"] == []
        # The limits are for files of any size.
        (home / "flat/b.png").write_bytes(picture.replace(chunk(b"prVt", bytes(3 << 20)), b""))
        for limit, reason in ("--max-file-bytes", "too-large"), ("--max-image-pixels", "too-many-pixels"):
            for memory in ("8M", "1G"):
                got = json.loads(run(home, "check", home / "flat", "--json", "-t1", "--memory", memory, limit, "3", code=1)[0])
                assert [b["reason"] for b in got["broken"]] == [reason, reason], got


def test_tars_that_end_oddly_are_read_with_a_warning():
    """Cut off between two members, or joined with cat: `check` and the daemon's log say so."""
    with folder() as home:
        tars = make_dataset(home / "tars", tars=True, per_class=20, per_shard=25)
        one, two = sorted(tars.glob("*.tar"))[:2]
        with tarfile.open(one) as members:
            last = members.getmembers()[19]
        cut, both = home / "cut.tar", home / "both.tar"
        cut.write_bytes(one.read_bytes()[:last.offset_data + (last.size + 511) // 512 * 512])
        both.write_bytes(one.read_bytes() + two.read_bytes())
        said = {cut: f"{cut} ends at byte {cut.stat().st_size} without the two blocks of zeros that end a tar: it may have been cut off",
                both: f"{both} has another tar after its end, from byte {one.stat().st_size} on, which is not read"}
        with Daemon(home) as daemon:
            for source, count in ((cut, 10), (both, 25), (two, 25)):
                for _ in range(2):  # indexed, and from the index
                    out, err = run(home, "check", source, "--json")
                    got = json.loads(out)
                    assert got["samples"] == count and got["broken"] == [], got
                    assert len(got["warnings"]) == (source in said) and said.get(source, "") in err, (got, err)
                    assert all(text in err for text in got["warnings"])
                assert len(daemon.batches(source=source, epochs=1, batch_size=5, image_size=32)) > 2
                assert said.get(source, "") in daemon.text()
            assert daemon.text().count(" end a tar") == 1 and daemon.text().count("another tar") == 1, daemon.text()


def test_check_of_tars():
    with folder() as home:
        tars = make_dataset(home / "tars", tars=True, per_class=20, per_shard=25)
        spec = str(tars / "shard-{000000..000002}.tar")
        got = json.loads(run(home, "check", spec, "--json")[0])
        assert got["samples"] == 60 and got["shards"] == 3 and got["labelled"] and got["broken"] == [], got
        assert json.loads(run(home, "check", tars / "*.tar", "--json")[0])["fingerprint"] == got["fingerprint"]
        assert json.loads(run(home, "check", tars / "*.tar", "--json", "--labels=none")[0])["labelled"] is False
        with tarfile.open(tars / "bad.tar", "w") as out:
            (home / "x.jpg").write_bytes(b"\xff\xd8\xff\xe0 and no more")
            out.add(home / "x.jpg", "only.jpg")
        got = json.loads(run(home, "check", tars / "bad.tar", "--json", code=1)[0])
        assert [b["path"] for b in got["broken"]] == [f"{tars}/bad.tar!only.jpg"]


def test_sources_that_are_none():
    with folder() as home:
        (home / "empty").mkdir()
        (home / "text.txt").write_text("x")
        mixed = make_dataset(home / "mixed", tars=True, per_class=4, per_shard=100)
        shard = next(mixed.glob("*.tar"))
        with tarfile.open(shard) as source, tarfile.open(home / "mixed.tar", "w") as out:
            for i, member in enumerate(source):
                if i != 1:
                    out.addfile(member, source.extractfile(member))
        (home / "cut.tar").write_bytes(shard.read_bytes()[:5000])
        cases = [
            (home / "nowhere", "nowhere"), (home / "nowhere/x.tar", "x.tar"), (home / "empty", "empty"), (home / "text.txt", "text.txt"),
            (home / "*.nothing", "*.nothing"), (home / "s-{0..3.tar", "s-{0..3.tar"), (home / "cut.tar", "cut.tar"),
            (home / "mixed.tar", "label"),
        ]
        for command in ("check", "bench", "replay", "show"):
            for source, says in cases:
                refuse(home, command, source, says=says)
        refuse(home, "check", make_dataset(home / "images", per_class=1), "--memory", "1M", "--threads", "64", says="do not fit --memory")
        refuse(home, "check", home / "images", "--labels", "cls", says="label")
        assert_clean(home)


def test_an_index_that_cannot_be_kept():
    """Not even root can make folders in /proc."""
    with folder() as home:
        images = make_dataset(home / "images", per_class=2)
        out, err = run(home, "check", images, "--json", env={**environment(home), "XDG_CACHE_HOME": "/proc/self/none"})
        assert json.loads(out)["samples"] == 6 and err.startswith("penstock: ") and "temporary file" in err, err
        assert "the cache folder /proc/self/none/penstock cannot be used (No such file" in err, err


def test_checkpoints_that_cannot_be_kept():
    with folder() as home:
        make_dataset(home / "images", per_class=30)
        few = 20 << 10  # the index is smaller, the entry points are not

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (few, few))
        for options in ([], ["--json"]):
            out, err = run(home, "check", home / "images", "--index", *options, code=1, preexec_fn=limit)
            assert f"entry points of {home / 'images'} cannot be written" in err and "File too large" in err, err
        report = json.loads(out)
        assert report["broken"] == [] and report["checkpoints"]["made"] + report["checkpoints"]["kept"] < report["decoded"], report
        out, err = run(home, "check", home / "images", "--index", "--json")
        assert err == "" and json.loads(out)["checkpoints"]["made"] > 0, (out, err)
        # Not even an index fits: an error, not a death by signal, and nothing is left behind.
        (home / "none").mkdir()
        env = environment(home, XDG_CACHE_HOME=home / "none")

        def limit_more():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        out, err = run(home, "check", home / "images", code=1, env=env, preexec_fn=limit_more)
        assert "File too large" in err and not [p for p in (home / "none").rglob("*") if p.is_file()], err


# ---- replay ----


def test_replay_makes_what_was_served():
    with folder() as home:
        make_dataset(home / "images")
        with Daemon(home, "--threads", "2") as daemon:
            train = served(home, daemon, seed=5, epochs=2, batch_size=8, image_size=40)
            straight = served(home, daemon, shuffle=0, epochs=1, batch_size=8, image_size=40)
            judge = served(home, daemon, train=0, epochs=1, batch_size=16, image_size=64)
        assert len(train) == 2 * 56 and len(judge) == 60
        size = ["--image-size", 40, "-b", 8]
        for epoch, batch in ((0, 0), (0, 6), (1, 3)):
            first = epoch * 56 + batch * 8
            assert_same(replayed(home, "--seed", 5, "-e", epoch, "--batch", batch, *size), train[first:first + 8])
        assert_same(replayed(home, "--seed", 5, "--batch", 2, "--row", 3, *size), train[19:20])
        assert_same(replayed(home, "--no-shuffle", "--batch", 1, *size), straight[8:16])
        assert_same(replayed(home, "--eval", "--batch", 3, "-b", 16, "--image-size", 64), judge[48:])
        for record, image in train[:6]:
            index, _, x, y, w, h, *_ = record
            flip = ["--flip"] if record[8] & 1 else []
            row, = replayed(home, "--index", index, "--crop", f"{x},{y},{w},{h}", "--image-size", 40, *flip)
            assert row["crc32"] == f"{zlib.crc32(image):08x}"
        row, = replayed(home, "--index", judge[7][0][0], "--eval", "--image-size", 64)
        assert row["crc32"] == f"{zlib.crc32(judge[7][1]):08x}"


def test_replay_of_broken_samples():
    with folder() as home:
        images = make_dataset(home / "images", per_class=10)
        break_samples(images)
        with Daemon(home, "--threads", "2") as daemon:
            train = served(home, daemon, seed=1, epochs=1, batch_size=10, image_size=32, max_broken=0.5)
            judge = served(home, daemon, train=0, epochs=1, batch_size=10, image_size=32, max_broken=0.5)
        assert sum(r[8] & 2 for r, _ in train) == 4 and sum(r[8] & 8 for r, _ in judge) == 16, "two of each"
        size = ["--image-size", 32, "-b", 10]
        for batch in range(3):
            assert_same(replayed(home, "--seed", 1, "--batch", batch, *size), train[batch * 10:batch * 10 + 10])
            assert_same(replayed(home, "--eval", "--batch", batch, *size), judge[batch * 10:batch * 10 + 10])
        refuse(home, "replay", images, "--index", 3, "--crop", "0,0,8,8", says=["sample 3", "truncated"], code=1)


def paeth(left, above, corner):
    """As in the PNG specification: the nearest to left + above - corner; if two are equally near, the first in this order."""
    to_left, to_above, to_corner = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
    if to_left <= to_above and to_left <= to_corner:
        return left
    return above if to_above <= to_corner else corner


PNG_FILTERS = (None, lambda left, _above, _corner: left, lambda _left, above, _corner: above,
               lambda left, above, _corner: (left + above) // 2, paeth)


def png_pixels(data):
    """Width, height and RGB bytes of a PNG as the command writes them (8 bits, RGB, not interlaced)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        if name == b"IHDR":
            width, height, *rest = struct.unpack(">IIBBBBB", body)
            assert rest == [8, 2, 0, 0, 0], rest
        packed += body if name == b"IDAT" else b""
        at += 12 + size
    raw, step, before, out = zlib.decompress(packed), width * 3, bytes(width * 3), []
    for y in range(height):
        kind, line = raw[y * (step + 1)], bytearray(raw[y * (step + 1) + 1:(y + 1) * (step + 1)])
        for x in range(step if kind else 0):
            left, above, corner = line[x - 3] if x > 2 else 0, before[x], before[x - 3] if x > 2 else 0
            line[x] = (line[x] + PNG_FILTERS[kind](left, above, corner)) & 255
        before = bytes(line)
        out.append(before)
    return width, height, b"".join(out)


def test_replay_writes_pictures():
    with folder() as home:
        make_dataset(home / "images", per_class=4)
        rows = replayed(home, "-b", 4, "--image-size", 24, "-o", home / "out", "--batch", 1)
        files = sorted((home / "out").iterdir())
        assert [f.name for f in files] == [f"epoch-0-batch-1-row-00{i}.png" for i in range(4)]
        for row, file in zip(rows, files):
            width, height, pixels = png_pixels(file.read_bytes())
            assert (width, height) == (24, 24) and f"{zlib.crc32(pixels):08x}" == row["crc32"]
        (home / "file").write_text("")
        run(home, "replay", home / "images", "-b", "4", "-o", home / "file/x", code=1)


def test_replay_of_what_is_not_there():
    with folder() as home:
        images = make_dataset(home / "images", per_class=4)
        for args, says in ((["-b", 4, "--batch", 3], "--batch 3 is beyond the epoch's last, 2"),
                           (["-b", 13], "12 samples, not enough for one batch of 13"),
                           (["-b", 4, "--row", 4], "--row: expected a whole number from 0 to 3, or all"),
                           (["-b", 4, "--row", "x"], "--row: expected"),
                           (["--index", 12, "--crop", "0,0,1,1"], "--index 12 is beyond the dataset's last, 11"),
                           (["--index", 1, "--crop", "0,0,9999,1"], "is not inside the image"),
                           (["--index", 1, "--crop", "0,0,0,1"], "is not inside the image"),
                           (["--index", 1, "--crop", "0,0,1"], "--crop: expected X,Y,W,H"),
                           (["--index", 1, "--crop", "0,0,1,1,1"], "--crop: expected X,Y,W,H"),
                           (["--index", 1, "--crop", "-1,0,1,1"], "--crop: expected X,Y,W,H")):
            refuse(home, "replay", images, *args, says=says)


# ---- bench ----

def test_bench_json_is_the_interface():
    with folder() as home:
        images = make_dataset(home / "images")
        out, err = run(home, "bench", images, "--json", "--seconds", "0.7", "--threads", "2", "-b", 8, "--image-size", 32, "--memory", "96M")
        got = json.loads(out)
        assert list(got) == BENCH_KEYS and err == "", (list(got), err)
        assert (got["batch_size"], got["threads"], got["trainers"]) == (8, 2, 1)
        assert list(got["stages"]) == ["read", "decode", "pixel", "serve"] and got["stages"]["decode"] > 0
        assert abs(sum(got["decode_stages"].values()) - got["stages"]["decode"]) < 0.01, got
        assert abs(got["images_per_s"] * got["seconds"] - got["images"]) < 0.02 * got["images"] + 1 and 0.7 <= got["seconds"] < 0.7 * 3
        assert got["images"] % 8 == 0 and 0 < got["batch_p50_ms"] <= got["batch_p99_ms"]
        assert 0 < got["cpu_s"] <= 2.2 * got["seconds"] and 0 < got["first_batch_s"] < LIMIT
        assert 1 << 20 < got["peak_memory_bytes"] and got["bytes_read"] >= 0 and got["verdict"]
        assert got["bottleneck"]["kind"] in ("unknown", "trainer", "decode", "read", "memory", "held"), got["bottleneck"]
        assert_clean(home)


def test_bench_for_people():
    with folder() as home:
        images = make_dataset(home / "images")
        text, err = run(home, "bench", images, "--seconds", "0.3", "-n", 3, "-b", 8, "--image-size", 32, "--eval", "--prefetch", 3,
                        "--threads", 1)
        assert err == ""
        for words in ("images/s", "first batch", "decode", "memory", "verdict", "3 trainers", "evaluation, 32 px, batch 8, in order",
                      " cores of 1 decoding thread;"):
            assert words in text, text
        # The processor's name decides where this line is wrapped.
        assert text.splitlines()[1].startswith("  machine  ") and " processors may be used; " in " ".join(text.split()), text
        assert not [line for line in text.splitlines()[1:] if len(line) > 80], text
        assert_clean(home)


def test_bench_of_several_trainers_gives_all_the_same():
    with folder() as home:
        images = make_dataset(home / "images")
        got = json.loads(run(home, "bench", images, "--seconds", "0.5", "-n", 4, "-b", 8, "--image-size", 32, "--json")[0])
        assert got["trainers"] == 4
        assert abs(got["images_per_s"] * got["seconds"] - got["images"]) < 0.05 * got["images"] + 8, "the average of one, not the sum"
        assert_clean(home)


def test_bench_with_a_daemon_that_does_not_start():
    with folder() as home:
        images = make_dataset(home / "images", per_class=4)
        script = home / "daemon"
        script.write_text("#!/bin/sh\necho 'the first line'\necho 'it is Monday' >&2\nexit 3\n")
        script.chmod(0o755)
        for name, code, says in ((home / "none", 2, ["PENSTOCKD names", "No such file"]), ("/bin/false", 1, "before it was ready"),
                                 (script, 1, ["before it was ready", "  the first line\n  it is Monday"])):
            for command in ("bench", "show"):
                refuse(home, command, images, "-b", 4, code=code, says=says, env=environment(home, PENSTOCKD=name))
        path = f"{home / 'bin'}:{tool('penstockd').rpartition('/')[0]}:{os.environ['PATH']}"
        (home / "bin" / "penstockd").mkdir(parents=True)
        (home / "bin" / "penstock").write_bytes(open(tool("penstock"), "rb").read())
        (home / "bin" / "penstock").chmod(0o755)
        done = subprocess.run([home / "bin" / "penstock", "bench", images, "-b", "4", "--seconds", "0.1", "--json"],
                              env={**environment(home), "PATH": path}, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, f"a folder is no daemon: {done.stderr}"
        refuse(home, "bench", images, "-b", 4, code=2, says="Is a directory", env=environment(home, PENSTOCKD=home / "bin"))
        refuse(home, "bench", images, "-b", 4, "--memory", "2M", says="memory: 2.0 MiB is too small")
        script.write_text("#!/bin/sh\nexit 2\n")
        for command in ("bench", "show"):
            refuse(home, command, images, "-b", 4, code=2, says=["before it was ready", "(nothing)"], env=environment(home, PENSTOCKD=script))
        assert_clean(home)


def test_bench_of_a_dataset_with_too_many_broken():
    with folder() as home:
        images = make_dataset(home / "images", per_class=10)
        break_samples(images)
        # Two broken samples are always allowed. The bench ends at the third.
        sorted(images.rglob("*.jpg"))[9].write_text("this is a text\n")
        refuse(home, "bench", images, "-b", 10, "--seconds", LIMIT / 2, code=1,
               says=["broken", "penstock check", "raise --max-broken to go on without them"])
        out = run(home, "bench", images, "-b", 10, "--seconds", "0.3", "--max-broken", "0.5", "--image-size", 32)[0]
        assert "not-image" in out and "truncated" in out, out
        for command in ("bench", "show"):
            err = refuse(home, command, images, "-b", 1000, says=["30 samples", "1000", "--batch-size, or --eval"])
            assert "drop_last" not in err, err
        assert_clean(home)


def test_bench_interrupted_leaves_nothing():
    with folder() as home:
        images = make_dataset(home / "images")
        for number, delay in ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.05), (signal.SIGHUP, 0)):
            bench = start(home, "bench", images, "--seconds", 60, "-n", 2, "-b", 8)
            wait_until(lambda: len(children(bench.pid)) == 3, "daemon and trainers")
            time.sleep(delay)
            pids = children(bench.pid)
            bench.send_signal(number)
            out, _ = bench.communicate(timeout=LIMIT)
            assert bench.returncode == -number and out == "", (bench.returncode, out)
            assert_clean(home)
            wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), "the trainers' end")


def test_bench_killed_takes_its_trainers_along():
    with folder() as home:
        images = make_dataset(home / "images")
        bench = start(home, "bench", images, "--seconds", 60, "-n", 2, "-b", 8)
        wait_until(lambda: len(children(bench.pid)) == 3, "daemon and trainers")
        pids = children(bench.pid)
        trainers, daemon = [p for p in pids if not is_daemon(p)], next(p for p in pids if is_daemon(p))
        bench.kill()
        bench.communicate()
        wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in trainers), "the trainers' end")
        wait_until(lambda: not os.path.exists(f"/proc/{daemon}"), "the daemon's end after ten idle seconds")


def test_bench_whose_daemon_or_trainer_dies():
    with folder() as home:
        images = make_dataset(home / "images")
        for victim_is_daemon, says in ((True, "the daemon's log ends with:"), (False, "trainer")):
            bench = start(home, "bench", images, "--seconds", 60, "-n", 2, "-b", 8)
            wait_until(lambda: len(children(bench.pid)) == 3, "daemon and trainers")
            time.sleep(0.3)
            os.kill(next(p for p in children(bench.pid) if is_daemon(p) == victim_is_daemon), signal.SIGKILL)
            out, err = bench.communicate(timeout=LIMIT)
            assert bench.returncode == 1 and out == "" and err.startswith("penstock: ") and says in err, (bench.returncode, err)
            assert_clean(home)


STREAMS = """streams:
  small:
    source: {0}
    batch_size: 8
    image_size: 40
    seed: 3
  quick:
    source: {0}
    batch_size: 8
    image_size: 40
    train: false
    decode: fast
    interpolation: lanczos
"""


def test_bench_and_show_of_a_running_stream():
    with folder() as home:
        images = make_dataset(home / "images")
        with Daemon(home, "--threads", "2", config=STREAMS.format(images)) as daemon:
            env = environment(home, PENSTOCK_SOCKET=daemon.socket)
            got = json.loads(run(home, "bench", "stream:small", "--seconds", "0.5", "--json", env=env)[0])
            assert got["batch_size"] == 8 and got["threads"] == 2 and got["images"] > 0
            got = json.loads(run(home, "show", "stream:small", "-o", home / "s.png", "--batch", 2, "--json", env=env)[0])
            assert (got["rows"], got["batch"]) == (8, 2)
            refuse(home, "bench", "stream:large", code=2, says="large", env=env)
            text = run(home, "bench", "stream:quick", "--seconds", "0.3", env=env)[0]
            assert "evaluation, 40 px, batch 8, in order, seed 0, decoded fast,\n" in text.replace("lanczos", "") and "lanczos" in text, text
            for name in ("small", "quick"):
                run(home, "show", f"stream:{name}", "-o", home / f"{name}.png", env=env)
            replica = ["--eval", "-b", 8, "--image-size", 40]
            run(home, "show", images, "-o", home / "same.png", *replica, "--decode", "fast", "--interpolation", "lanczos")
            run(home, "show", images, "-o", home / "exact.png", *replica)
            quick, same, exact = (png_pixels((home / f"{name}.png").read_bytes()) for name in ("quick", "same", "exact"))
            below = 3 * 70 * quick[0]  # the first two lines name the source
            assert quick[2][below:] == same[2][below:], "the definition is the daemon's"
            assert quick[2][below:] != exact[2][below:]
            assert daemon.process.poll() is None, "it was not theirs to end"
        for command in ("bench", "show"):
            refuse(home, command, home / "images", "--memory", "64M", "-b", 60, "--image-size", 512, "--eval", code=2,
                   says=["a stream of batch_size 60 at 512 x 512 needs", "would fit; or give --memory "], env=environment(home))
            refuse(home, command, "stream:small", code=1, env=environment(home),
                   says=["no penstockd is running at ", "(start one: penstockd; how the last one ended: penstock why); start the one that knows stream:small: penstockd --config FILE"])
        assert_clean(home)


# ---- show ----

def test_show_draws_a_sheet():
    with folder() as home:
        images = make_dataset(home / "images")
        size = ["-b", 12, "--image-size", 48, "--tile", 64, "--columns", 5]
        got = json.loads(run(home, "show", images, "-o", home / "a.png", "--json", *size)[0])
        width, height, pixels = png_pixels((home / "a.png").read_bytes())
        assert (got["width"], got["height"], got["rows"]) == (width, height, 12)
        assert len(set(pixels[i:i + 3] for i in range(0, len(pixels), 3))) > 500, "there are pictures on it"
        run(home, "show", images, "-o", home / "b.png", "--reader", "pread", "--threads", 1, *size)
        assert (home / "b.png").read_bytes() == (home / "a.png").read_bytes(), "same seed, same sheet"
        run(home, "show", images, "-o", home / "c.png", "--batch", 4, "--epoch", 1, *size)
        assert (home / "c.png").read_bytes() != (home / "a.png").read_bytes()
        run(home, "show", images, "-o", home / "d.png", "--batch", 1, "--seed", 2**64 - 1, *size)
        assert_clean(home)


def test_show_draws_32_rows_and_their_files():
    """A default sheet has 32 rows. Where only the names of files differ, only the line of names below the images does, in smooth letters."""
    with folder() as home:
        images = make_dataset(home / "images", per_class=20)
        got = json.loads(run(home, "show", images, "-o", home / "a.png", "--image-size", 32, "--tile", 48, "--json", "-b", 40)[0])
        assert got["rows"] == 32, got
        got = json.loads(run(home, "show", images, "-o", home / "b.png", "--image-size", 32, "--tile", 48, "--json", "-b", 40, "--rows", 40)[0])
        assert got["rows"] == 40, got
        sheets = []
        tail = "-of-a-name-that-is-far-too-wide-for-what-is-below-an-image"
        for end in ("", "X", "é", tail, f"{tail}s", os.fsdecode(b"\xff\xfe"), "\U0001f408" * 30):
            shutil.rmtree(home / "named", ignore_errors=True)
            for number, path in enumerate(sorted(images.rglob("*.jpg"))[:24]):
                target = home / "named" / path.parent.name / f"{number:02}{end}.jpg"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
            # One line of cells below a title that is always the same.
            run(home, "show", home / "named", "-o", home / "n.png", "--image-size", 32, "--tile", 96, "-b", 6, "--columns", 6, "--seed", 1)
            sheets.append(png_pixels((home / "n.png").read_bytes()))
        width, height, first = sheets[0]
        top = 32 + 84 + 96 + 6 + 24
        for other in sheets[1:]:
            assert other[:2] == (width, height)
            lines = {at // 3 // width for at in range(len(first)) if first[at] != other[2][at]}
            assert lines and min(lines) >= top and max(lines) < top + 24, (sorted(lines), top)
        assert len({pixels for _, _, pixels in sheets}) == len(sheets), "also a name that is not UTF-8, and ends of long names"
        names = first[top * width * 3:(top + 24) * width * 3]
        ink, paper = bytes.fromhex("6a7078"), bytes.fromhex("fbfaf7")
        colors = collections.Counter(names[at:at + 3] for at in range(0, len(names), 3))
        assert colors[ink] and colors[paper] and len(colors) > 10, f"letters have smooth edges: {colors}"
        assert_clean(home)


def test_show_writes_all_labels():
    """Sheets that differ only in a second class, a second number, or the name of a class."""
    with folder() as home:
        images = make_dataset(home / "images")
        names = sorted(path.relative_to(images) for path in images.rglob("*.jpg"))
        sheets = set()
        labels = {"one": "a;b", "two": "a;c", "numbers": "0;1", "others": "0;2", "named": "d;b"}
        rows = {name: ("path,labels\n", f",{text}\n") for name, text in labels.items()}
        rows |= {"float": ("path,x,y\n", ",0.5,1.5\n"), "floats": ("path,x,y\n", ",0.5,2.5\n")}
        for name, (head, line) in rows.items():
            # The last sample has all names and numbers, so that all datasets have the same classes.
            last = {"f": ",0.5,0.5\n", "n": ",a;b;c;d\n"}["f" if name.startswith("float") else "n"]
            last = ",0;1;2\n" if name in ("numbers", "others") else last
            (home / "labels.csv").write_text(head + "".join(f"{path}{line}" for path in names[:-1]) + f"{names[-1]}{last}")
            run(home, "show", images, "-o", home / "a.png", "-b", 6, "--image-size", 32, "--views", 2, "--labels", f"{{manifest: {home}/labels.csv}}")
            sheets.add((home / "a.png").read_bytes())
        assert len(sheets) == len(rows), f"{len(rows)} datasets make {len(sheets)} sheets"
        assert_clean(home)


def test_show_shows_what_is_broken():
    with folder() as home:
        images = make_dataset(home / "images", per_class=10)
        break_samples(images)
        for args in (["--eval"], ["--seed", 1]):
            got = json.loads(run(home, "show", images, "-o", home / "a.png", "-b", 30, "--image-size", 48, "--json", *args)[0])
            assert got["rows"] == 30
        out, err = run(home, "show", images, "-o", home / "a.png", "-b", 10, "--image-size", 48, "--rows", 100)
        assert "10 rows of batch 0" in out and err == "penstock: the batch has only 10 rows, fewer than --rows 100\n", (out, err)
        out, err = run(home, "show", images, "-o", home / "a.png", "-b", 10, "--image-size", 48, "--rows", 1)
        assert "1 row of batch 0" in out and err == "", (out, err)
        refuse(home, "show", images, "-b", 10, "--batch", 3, says="--batch 3 is beyond the epoch's last, 2")
        refuse(home, "show", images, "-b", 10, "-o", home / "no/where.png", says="no/where.png", code=1)
        assert_clean(home)


RECIPE = ("[RandomResizedCrop: {size: 48}, RandomHorizontalFlip, ColorJitter: {brightness: 0.4, hue: 0.1}, "
          "RandomApply: {transforms: [RandomInvert: {p: 1}, RandAugment], p: 0.5}, RandomErasing: {p: 1}]")


def test_show_draws_a_sample_behind_each_operation():
    """Small enough that a cell is the row itself: the last line shows what the stream delivers in each epoch."""
    with folder() as home:
        images = make_dataset(home / "images")
        count = len(list(images.rglob("*.jpg")))
        recipe, draws, stages = ["--seed", 5, "--transforms", RECIPE], 5, 5
        got = json.loads(run(home, "show", images, "-o", home / "a.png", "--sample", 7, "--epoch", 2, "--draws", draws, "--tile", 48, "--json", *recipe)[0])
        width, height, pixels = png_pixels((home / "a.png").read_bytes())
        assert (got["width"], got["height"], got["sample"], got["draws"]) == (width, height, 7, draws)
        left, top, step, line = 32 + 270, 32 + 84, 48 + 11, 48 + 4 + 4 * 18 + 11
        seen = set()
        for i in range(draws):
            rows = json.loads(run(home, "replay", images, "--epoch", 2 + i, "--batch", 0, "-b", count, "-o", home / f"rows{i}", "--json", *recipe)[0])["rows"]
            row = next(row["row"] for row in rows if row["index"] == 7)
            served = png_pixels((home / f"rows{i}" / f"epoch-{2 + i}-batch-0-row-{row:03}.png").read_bytes())
            x, y = left + i * step, top + (stages - 1) * line
            cell = b"".join(pixels[((y + k) * width + x) * 3:((y + k) * width + x + 48) * 3] for k in range(48))
            assert served == (48, 48, cell), f"epoch {2 + i}: the last picture is the row"
            seen.add(cell)
        assert len(seen) == draws, "each epoch draws anew"
        out, _ = run(home, "show", images, "-o", home / "b.png", "--sample", 0, "--eval", "--draws", 1)
        assert out.startswith(f"{home}/b.png: sample 0 (") and out.endswith(" pixels\n") and "1 draw," in out, out
        with Daemon(home, config=json.dumps({"streams": {"one": {"source": str(images), "seed": 5, "batch_size": 4, "transforms": [
                {"RandomResizedCrop": {"size": 48}}, "RandAugment"]}}})) as daemon:
            run(home, "show", "stream:one", "--sample", 7, "-o", home / "c.png", env=environment(home, PENSTOCK_SOCKET=daemon.socket))
        run(home, "show", images, "--sample", 7, "-o", home / "d.png", "-b", 4, "--seed", 5, "--transforms", "[RandomResizedCrop: {size: 48}, RandAugment]")
        assert (home / "c.png").read_bytes() == (home / "d.png").read_bytes(), "a stream's recipe is the daemon's"
        refuse(home, "show", images, "--sample", 10**9, says="--sample 1000000000 is beyond the dataset's last, ")
        refuse(home, "show", images, "--sample", 0, "--draws", 33, says="from 1 to 32")
        refuse(home, "show", images, "--sample", 0, "-o", home / "no/where.png", says="no/where.png", code=1)
        assert_clean(home)


def test_show_of_a_sample_that_is_broken():
    with folder() as home:
        images = make_dataset(home / "images", per_class=10)
        (broken,) = [path for path in sorted(images.rglob("*.jpg"))][:1]
        broken.write_bytes(b"no image")
        refuse(home, "show", images, "--sample", 0, says=["sample 0", "is broken"], code=1)
        assert_clean(home)


# ---- status, stop ----

def test_status_and_stop():
    with folder() as home:
        images = make_dataset(home / "images")
        with Daemon(home, "--threads", "2", "--recorder", home / ("recorders-" * 6)) as daemon:
            env = environment(home, PENSTOCK_SOCKET=daemon.socket)
            assert run(home, "status", env=env)[0].startswith("verdict        no stream is open\n\npenstockd ")
            trainer = daemon.trainer(source=images, batch_size=8, image_size=32, batches=1000, sleep_ms=20)
            trainer.line()
            text = run(home, "status", env=env)[0]
            assert text.startswith("verdict ") and text.index("verdict ") < text.index("\npenstockd "), text
            for words in (f"pid {daemon.process.pid}", daemon.socket, "reserved", "8x32", f"\n  trainer {trainer.process.pid}", str(images),
                          "\n  entry points kept\n", "\n  training, 32 px, batch 8, shuffled, seed 0\n"):
                assert words in text, text
            assert not [line for line in text.splitlines() if len(line) > 80 and daemon.socket not in line and str(images) not in line], text
            got = json.loads(run(home, "status", "--json", "--socket", daemon.socket)[0])
            assert got["pid"] == daemon.process.pid and len(got["streams"]) == 1
            assert f"/\n               {Path(got['recorder']['path']).name}\n" in text, f"a long path continues below, after a slash: {text}"
            trainer.kill()
            # The position of a trainer does not depend on whether it holds a batch at the moment.
            quick = daemon.trainer(source=images, batch_size=30, image_size=32)
            for _ in range(5):
                seen = quick.line()
            for _ in range(10):
                stream = json.loads(run(home, "status", "--json", env=env)[0])["streams"][-1]
                epoch, batch = (int(word) for word in seen.split()[:2])
                assert (stream["epoch"], stream["batch"]) >= (epoch, batch), (stream, seen)
                seen = quick.line()
            quick.kill()
            assert run(home, "stop", env=env) == ("", "")
            assert daemon.process.wait(timeout=LIMIT) == 0
            refuse(home, "status", code=1, says=[f"no penstockd is running at {daemon.socket}", "(start one: penstockd; how the last one ended: penstock why)"],
                   env=env)
            refuse(home, "stop", code=1, says=f"nothing to stop: no penstockd is running at {daemon.socket}", env=env)


@contextlib.contextmanager
def answering(path, text):
    """Greets as penstockd does and answers every request with `text`. It has ended when the block ends: a thread that still calls
    accept() would take the connections of a later listener that gets the same descriptor number."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()

    def serve():
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as client:
                    _, _, request, _ = struct.unpack_from("<IIII", client.recv(65536))
                    client.send(harness.message(harness.WELCOME, struct.pack("<QIiQII", harness.MAGIC, 1, os.getpid(), 0, 0, 0), request))
                    _, _, request, _ = struct.unpack_from("<IIII", client.recv(65536))
                    client.send(harness.message(harness.ANSWER, struct.pack("<QII", len(text), len(text), 0) + text, request))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def test_status_of_a_daemon_that_lies():
    huge, escape = 1e308, "\x1b[31mred\nline \x9b31m\x85"
    trainer = {"pid": huge, "held": huge, "epoch": huge, "batch": huge, "given": 1, "blocks": True, "held_s": huge}
    stream = {"name": escape, "group": "g", "source": escape, "share": "split", "rate": -5, "broken": {"x": -huge},
              "laggard": "detach", "world_size": huge, "rank": huge, "wait_for": huge, "epoch": huge, "batch": huge, "batches": -huge,
              "batch_size": huge, "state": "serving", "verdict": escape, "trainers": [trainer, trainer]}
    lies = ([{"streams": [dict(stream, share=share)], "uptime_s": -huge, "memory": {"reserved": huge, "budget": -huge}} for share in ("split", "all")] +
            [{"streams": {"a": dict(stream, trainers={"x": trainer})}, "notices": {"x": escape}, "memory": {"lines": {"x": {"name": escape}}}},
             {"streams": "x", "memory": 3, "cache": []}, [], {"notices": [escape, 3]}])
    with folder() as home:
        os.makedirs(home / "run", mode=0o700)
        for i, lie in enumerate(lies):
            path = str(home / f"run/{i}.sock")
            with answering(path, json.dumps(lie).encode()):
                out, err = run(home, "status", "--socket", path)
                assert out.split()[0] in ("verdict", "penstockd") and "penstockd ?, pid" in out and err == "" and "18,446,744" not in out, (out, err)
                assert all(c == "\n" or c.isprintable() for c in out) and "\nline" not in out, out
                assert json.loads(run(home, "status", "--json", "--socket", path)[0]) == lie
        for i, text in enumerate((b"[" * 30000, b"\x00", b"{", b"")):
            path = str(home / f"run/{i}.bad")
            with answering(path, text):
                refuse(home, "status", "--socket", path, code=1, says="is not JSON")


def test_status_begins_with_the_verdict():
    """First the sentence, then the remedy on its own lines; of several streams each has its own, of a single one not again."""
    root = {"verdict": "b: decode-bound: 1 core decodes 300 images/s", "remedy": "try --threads 2, in Python threads=2, or a smaller image_size, or pack",
            "streams": [{"name": "a", "source": "/d", "verdict": "not held up", "remedy": ""},
                        {"name": "b", "source": "/d", "verdict": "decode-bound: 1 core decodes 300 images/s", "remedy": "try --threads 2"}]}
    head = ("verdict        b: decode-bound: 1 core decodes 300 images/s\n"
            "remedy         try --threads 2, in Python threads=2, or a smaller image_size, or\n"
            "               pack\n\npenstockd ")
    with folder() as home:
        os.makedirs(home / "run", mode=0o700)
        path = str(home / "run/a.sock")
        with answering(path, json.dumps(root).encode()):
            out = run(home, "status", "--socket", path)[0]
            assert out.startswith(head), out
            assert "\na: /d\n" in out and "\n  not held up\n" in out, out
            assert "\n  decode-bound: 1 core decodes 300 images/s\n  remedy: try --threads 2\n" in out, out
        path = str(home / "run/b.sock")
        with answering(path, json.dumps(dict(root, streams=root["streams"][1:])).encode()):
            out = run(home, "status", "--socket", path)[0]
            assert out.startswith(head) and out.count("decode-bound") == 1 and out.count("try --threads 2") == 1, out
        path = str(home / "run/old.sock")
        with answering(path, json.dumps({"streams": [{"name": "a"}]}).encode()):
            assert run(home, "status", "--socket", path)[0].startswith("penstockd "), "a daemon that has no verdict yet"


def test_streams_of_a_dataset_are_told_apart():
    """By what differs in their definitions; a stream that is alone with its dataset needs nothing."""
    with folder() as home:
        images, others = make_dataset(home / "images"), make_dataset(home / "others")
        with Daemon(home, "--threads", "2") as daemon:
            env = environment(home, PENSTOCK_SOCKET=daemon.socket)

            def differs():
                streams = json.loads(run(home, "status", "--json", env=env)[0])["streams"]
                return {(Path(stream["source"]).name, stream["differs"]) for stream in streams}
            common = {"source": images, "batch_size": 8, "image_size": 32, "batches": 1000, "sleep_ms": 20}
            trainers = []

            def train(**options):
                trainers.append(daemon.trainer(**dict(common, **options)))
                trainers[-1].line()
            train()
            train(source=others, seed=9)
            assert differs() == {("images", ""), ("others", "")}, differs()
            train(seed=3)
            train(train=0, image_size=48)
            assert differs() == {("images", "train, 32 px, seed 0"), ("images", "train, 32 px, seed 3"),
                                 ("images", "eval, 48 px, seed 0"), ("others", "")}, differs()
            text = run(home, "status", env=env)[0]
            for words in ("\n(private), eval, 48 px, seed 0 ", f"\n(private), train, 32 px, seed 3: {images}\n"):
                assert words in text, text
            verdict = json.loads(run(home, "status", "--json", env=env)[0])["verdict"]
            assert re.match(r"(others: |images \((train|eval), \d\d px, seed [03]\): )", verdict), verdict
            trainers.pop().kill()
            wait_until(lambda: ("images", "seed 3") in differs() and ("images", "seed 0") in differs(), "the evaluation to be gone")
            for trainer in trainers:
                trainer.kill()
        with Daemon(home, "--threads", "2") as daemon:
            env = environment(home, PENSTOCK_SOCKET=daemon.socket)
            trainers = []
            train()
            train()
            assert differs() == {("images", f"trainer {trainer.process.pid}") for trainer in trainers}, "nothing else differs"
            for trainer in trainers:
                trainer.kill()


def test_status_of_many():
    """Every stream and every line of the ledger has its own row."""
    status = {"streams": [{"name": f"s{i}", "rate": i, "source": f"/s{i}"} for i in range(300)],
              "memory": {"lines": [{"name": f"line {i}", "bytes": i} for i in range(300)]}}
    with folder() as home:
        os.makedirs(home / "run", mode=0o700)
        path = str(home / "run/many.sock")
        with answering(path, json.dumps(status, separators=(",", ":")).encode()):
            lines = [line.split() for line in run(home, "status", "--socket", path)[0].splitlines()]
        for i in range(300):
            assert lines.count([f"s{i}", "0", "0/0", "0x0", "0/0", str(i), "0"]) == 1, (i, lines)
            assert lines.count([str(i), "B", "line", str(i)]) == 1, (i, lines)


# ---- the example programs' command lines ----

WAITING = """streams:
  pair:
    source: {0}
    batch_size: 4
    image_size: 64
    group: pair
    wait_for: 2
"""


def test_examples_say_what_they_want_and_what_they_waited_for():
    if not os.path.exists(tool("train_cpu")):
        raise Skip("no examples were built")
    for name in ("read_batches", "read_batches_cpp", "train_cpu"):
        if os.path.exists(tool(name)):
            done = subprocess.run([tool(name), "--help"], capture_output=True, text=True, timeout=LIMIT)
            assert done.returncode == 0 and done.stdout.startswith(f"usage: {name} SOURCE") and done.stderr == "", done
    with folder() as home:
        images = make_dataset(home / "images", per_class=4)
        with Daemon(home, "--threads", "1", config=WAITING.format(images)) as daemon:
            begin = time.monotonic()
            done = subprocess.run([tool("train_cpu"), "stream:pair", "--seconds", "1"], capture_output=True, text=True, timeout=LIMIT,
                                  env=environment(home, PENSTOCK_SOCKET=daemon.socket))
            assert done.returncode == 1 and time.monotonic() - begin < 10, (done, time.monotonic() - begin)
            words = done.stderr.split()
            assert done.stderr.startswith("train_cpu: no batch within ") and 1 <= float(words[4]) < 10, done.stderr
            assert "the group waits for 2 trainers before its first batch; 1 came to pair" in done.stderr, done.stderr


if __name__ == "__main__":
    run_tests(globals())
