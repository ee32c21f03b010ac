"""`penstock cache`: shows, verifies and clears a folder of blocks, which this test writes as daemon/remote/cache/disk_map.h says. The format
of these files is pinned by it."""
import fcntl
import json
import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import refuse, run
from harness import folder, run_tests

BLOCK = 65536
MASK = (1 << 64) - 1
TABLE = []
for i in range(256):
    crc = i
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    TABLE.append(crc)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def url_hash(url, seed=0xCBF29CE484222325):
    for byte in url.encode():
        seed = (seed ^ byte) * 0x100000001B3 & MASK
    return mix(seed)


def header(url, etag, size):
    shown = url.split("?")[0].encode() + b"\0"
    tag = etag.encode() + b"\0"
    fields = struct.pack("<8sIIQQII48x", b"PSTKBLK1", 1, BLOCK, size, url_hash(url), len(shown), len(tag))
    rest = b"\0" * 4 + (shown + tag).ljust(4000, b"\0")
    return fields + struct.pack("<I", crc32c(fields + b"\0" * 4 + rest)) + rest


def store(home, url, size, blocks):
    """An object of which these blocks are stored; its map's path."""
    remote = home / "keep/remote"
    remote.mkdir(parents=True, exist_ok=True)
    stem = f"{url_hash(url):016x}{url_hash(url, 0x340D631B7BDDDCDA):016x}"
    entries = b""
    with open(remote / f"{stem}.data", "wb") as data:
        for i in range(-(-size // BLOCK)):
            body = bytes([i % 251 + 1]) * min(BLOCK, size - i * BLOCK)
            if i in blocks:
                data.seek(i * BLOCK)
                data.write(body)
                entries += struct.pack("<II", crc32c(body), 0x6B706C62 ^ mix(i + 1) & 0xFFFFFFFF)
            else:
                entries += bytes(8)
        data.seek(size)
        data.write(struct.pack("<8sQ", b"PSTKDAT1", url_hash(url)))
    path = remote / f"{stem}.map"
    path.write_bytes(header(url, '"e"', size) + entries)
    return path


def make(home):
    (home / "keep/remote").mkdir(parents=True)
    (home / "keep/remote/account").touch()
    (home / "keep/remote/notes.txt").write_text("mine")
    os.utime(store(home, "s3://bucket/a/1.tar", 3 * BLOCK + 100, {0, 3}), (1_600_000_000, 1_600_000_000))
    store(home, "s3://bucket/a/2.tar", 2 * BLOCK, {0, 1})
    return store(home, "https://host/b/x.tar?X-Amz-Signature=secret", BLOCK, {0})


def test_show():
    with folder() as home:
        make(home)
        out, err = run(home, "cache", "--cache-dir", home / "keep")
        assert err == "" and "secret" not in out, (out, err)
        assert "256.1 KiB kept of 3 objects" in out, out
        assert [line.split()[-1] for line in out.splitlines()[2:]] == ["https://host/b/", "s3://bucket/a/"], out
        told = json.loads(run(home, "cache", "show", "s3://bucket/", "--json", "--cache-dir", home / "keep")[0])
        assert len(told["datasets"]) == 1 and told["kept"] == 3 * BLOCK + 100, told
        assert told["datasets"][0]["objects"] == 2 and told["datasets"][0]["size"] == 5 * BLOCK + 100, told
        told = json.loads(run(home, "cache", "show", "--objects", "--json", "--cache-dir", home / "keep")[0])
        files = {one["url"]: one for one in told["files"]}
        assert list(files) == ["https://host/b/x.tar", "s3://bucket/a/1.tar", "s3://bucket/a/2.tar"], told
        first = files["s3://bucket/a/1.tar"]
        assert first["kept"] == BLOCK + 100 and first["last_read"] == 1_600_000_000 and not first["open"], first
        assert first["disk_bytes"] >= BLOCK + 8192 and 0.33 < first["share"] < 0.34, first


def test_many_folders():
    with folder() as home:
        make(home)
        for i in range(33):
            store(home, f"s3://bucket/train/n{i:03}/x.jpg", 100, {0})
        told = json.loads(run(home, "cache", "--json", "--cache-dir", home / "keep")[0])
        assert [one["url"] for one in told["datasets"]] == ["https://host/", "s3://bucket/", "s3://bucket/train/"], told


def test_verify():
    with folder() as home:
        path = make(home)
        out, _ = run(home, "cache", "verify", "--cache-dir", home / "keep")
        assert out == "5 blocks of 3 objects, 256.1 KiB: all checksums are right\n", out
        with open(path.with_suffix(".data"), "r+b") as data:
            data.seek(777)
            data.write(b"\xff")
        assert "all checksums" in run(home, "cache", "verify", "s3://", "--cache-dir", home / "keep")[0]
        out, err = run(home, "cache", "verify", "--cache-dir", home / "keep", code=1)
        assert "1 broken; they are fetched again" in out, out
        assert err == "penstock: https://host/b/x.tar: 1 block of 64 KiB with wrong checksums\n", err
        told = json.loads(run(home, "cache", "verify", "--json", "--cache-dir", home / "keep")[0])
        assert told["blocks"] == 4 and told["broken_blocks"] == 0, told


def test_clear():
    with folder() as home:
        path = make(home)
        remote = home / "keep/remote"
        foreign = remote / ("0" * 32 + ".map")
        foreign.write_text("not a map")
        with open(path, "rb") as reader:
            fcntl.flock(reader, fcntl.LOCK_SH)
            told = json.loads(run(home, "cache", "--json", "--cache-dir", home / "keep")[0])
            assert [one["open"] for one in told["datasets"]] == [True, False], told
            out, _ = run(home, "cache", "clear", "--cache-dir", home / "keep")
            assert "removed 2 objects" in out and "left 1 object" in out and "that a process reads" in out, out
        assert path.exists() and path.with_suffix(".data").exists()
        told = json.loads(run(home, "cache", "clear", "https://host/", "--json", "--cache-dir", home / "keep")[0])
        assert told["objects"] == 1 and told["open_objects"] == 0, told
        assert sorted(one.name for one in remote.iterdir()) == sorted([foreign.name, "account", "notes.txt"])


def test_bad_input():
    with folder() as home:
        out, _ = run(home, "cache", "--cache-dir", home)
        assert "kept of 0 objects, 0 B of disk" in out, out
        refuse(home, "cache", "--cache-dir", home / "nowhere", says=["No such file", "--cache-dir"])
        refuse(home, "cache", "wipe", "--cache-dir", home, says='expected show, verify or clear, got "wipe"')
        (home / "file").touch()
        refuse(home, "cache", "--cache-dir", home / "file", code=1, says="Not a directory")
        # Damaged files are no objects, and are left.
        path = make(home)
        whole = path.read_bytes()
        for damaged in (whole[:100], whole[:8] + b"\xff" + whole[9:], bytes(5000), b""):
            path.write_bytes(damaged)
            told = json.loads(run(home, "cache", "--json", "--cache-dir", home / "keep")[0])
            assert told["objects"] == 2, told
        path.write_bytes(whole[:4096])
        told = json.loads(run(home, "cache", "show", "https:", "--json", "--cache-dir", home / "keep")[0])
        assert told["objects"] == 1 and told["kept"] == 0, told


if __name__ == "__main__":
    run_tests(globals())
