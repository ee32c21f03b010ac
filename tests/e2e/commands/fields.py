"""Fields in the commands: check validates them, pack keeps them, show and replay print them, and replay's substitutes are the
stream's; a daemon with roots, and a client that does not know of fields."""
import errno
import json
import os
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, Daemon, Link, Refused, folder, make_dataset, run_tests, tool


def run(home, *args, code=0, **more):
    keep = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK") or k == "PENSTOCK_BIN"}
    done = subprocess.run([tool("penstock"), *map(str, args)], env={**keep, "XDG_CACHE_HOME": str(home / "cache"), **more},
                          capture_output=True, text=True, timeout=4 * LIMIT, stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"penstock {' '.join(map(str, args))}: ended with {done.returncode}, not {code}\n{done.stderr}"
    return done.stdout, done.stderr


def caption(number):
    return f"caption {number}\n".encode() + b"\xff" * (number % 3)


def dataset(home, missing=(), long=()):
    """Class folders with a txt beside each image, and a tokens.npy beside every second one."""
    root = Path(make_dataset(home / "images", 6, 3, False))
    files = sorted(root.rglob("*.jpg"))
    for number, file in enumerate(files):
        data = b"x" * 5000 if number in long else caption(number)
        if number not in missing:
            file.with_suffix(".txt").write_bytes(data)
        if number % 2 == 0:
            file.with_name(f"{file.stem}.tokens.npy").write_bytes(bytes([number]) * number)
    return root, files


def test_check():
    with folder() as home:
        root, files = dataset(home, missing=(4,), long=(7,))
        shown, _ = run(home, "check", root, "--json", "--fields", "[txt]", code=1)
        broken = {entry["path"]: entry["reason"] for entry in json.loads(shown)["broken"]}
        assert set(broken) == {str(files[4]), str(files[7])}, broken
        assert broken[str(files[4])].startswith("field-missing"), broken
        assert broken[str(files[7])].startswith("field-too-long"), broken
        run(home, "check", root, "--fields", "[{name: txt, missing: empty, long: cut}]")
        run(home, "check", root)
        for wrong, words in (("[jpg]", "other than those of images"), ("[a/b]", "slashes"), ("[txt, txt]", "twice"),
                             ("[{max: 3}]", "name is missing"), ("[{name: txt, max: 0}]", "max"), ("[{name: txt, most: 3}]", "most"),
                             ("[[txt]]", "expected a name"), ("[{name: txt, long: no}]", "long")):
            _, said = run(home, "check", root, "--fields", wrong, code=2)
            assert words in said and "--fields" in said, (wrong, said)


def members(path):
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def test_pack():
    """From a folder and from tars: the fields are the same bytes, beside their image."""
    with folder() as home:
        root, files = dataset(home, missing=(3,))
        for name in ("one", "two", "plain"):
            (home / name).mkdir()
        run(home, "pack", root, home / "one" / "x-%02d.tar", "--fields", "[txt, tokens.npy]", "--threads", 1)
        one = members(home / "one" / "x-00.tar")
        names = list(one)
        for number, file in enumerate(files):
            key = str(file.relative_to(root).with_suffix(""))
            assert (f"{key}.txt" in one) == (number != 3), key
            assert one.get(f"{key}.txt", caption(3)) == caption(number), key
            assert one.get(f"{key}.tokens.npy", None) == (bytes([number]) * number if number % 2 == 0 else None), key
            assert all(abs(names.index(name) - names.index(f"{key}.jpg")) <= 3 for name in names if name.startswith(f"{key}."))
        run(home, "pack", home / "one" / "x-*.tar", home / "two" / "x-%02d.tar", "--fields", "[txt, tokens.npy]", "--threads", 2)
        two = members(home / "two" / "x-00.tar")
        assert {n: d for n, d in one.items() if not n.endswith(".jpg")} == {n: d for n, d in two.items() if not n.endswith(".jpg")}
        run(home, "pack", root, home / "plain" / "x-%02d.tar")
        assert not any(name.endswith((".txt", ".npy")) for name in members(home / "plain" / "x-00.tar"))
        assert "fields" not in json.loads((home / "plain" / "x.pack.json").read_text())["options"]
        # The same output, with other fields.
        _, said = run(home, "pack", root, home / "plain" / "x-%02d.tar", "--fields", "[txt]", code=2)
        assert "--fields" in said, said


def test_replay_and_show():
    with folder() as home:
        root, files = dataset(home, missing=(2, 9))
        recipe = ("--batch-size", 6, "--image-size", 32, "--seed", 5)
        shown, _ = run(home, "replay", root, *recipe, "--fields", "[txt]", "--json")
        rows = json.loads(shown)["rows"]
        assert len(rows) == 6 and {row["index"] for row in rows}.isdisjoint({2, 9})
        for row in rows:
            data = caption(row["index"])
            assert row["fields"] == {"txt": {"bytes": len(data), "crc32": f"{zlib.crc32(data):08x}"}}, row
        shown, _ = run(home, "replay", root, *recipe, "--eval", "--fields", "[txt]", "--json")
        marked = [row for row in json.loads(shown)["rows"] if row["invalid"]]
        assert [row["index"] for row in marked] == [2] and marked[0]["fields"]["txt"]["bytes"] == 0, marked
        shown, _ = run(home, "replay", root, *recipe, "--json")
        assert all("fields" not in row for row in json.loads(shown)["rows"])
        shown, _ = run(home, "replay", root, *recipe, "--index", 1, "--eval", "--fields", "[txt]")
        assert ".txt: 11 bytes" in shown and "caption 1 ?" in shown, shown
        shown, _ = run(home, "show", root, *recipe, "--sample", 5, "--draws", 1, "--fields", "[txt, tokens.npy]",
                       "--output", home / "a.png", code=1)
        shown, _ = run(home, "show", root, *recipe, "--sample", 6, "--draws", 1, "--fields", "[txt]", "--output", home / "a.png")
        assert "  .txt: 10 bytes: caption 6" in shown, shown
        shown, _ = run(home, "show", root, *recipe, "--fields", "[txt]", "--output", home / "b.png", "--json")
        report = json.loads(shown)
        assert len(report["fields"]) == 6 and all(entry["txt"].startswith("caption ") for entry in report["fields"]), report


def test_roots():
    """A daemon that may read only below its roots follows no link beside an image, wherever it leads."""
    with folder() as home, folder() as inside, folder() as outside:
        root, files = dataset(inside)
        (outside / "secret").write_bytes(b"secret")
        for file in (files[0], files[1]):
            file.with_suffix(".txt").unlink()
        files[0].with_suffix(".txt").symlink_to(outside / "secret")
        files[1].with_suffix(".txt").symlink_to(files[2].with_suffix(".txt"))
        definition = f"streams:\n  one: {{source: {root}, train: false, batch_size: 6, image_size: 32, max_broken: 1, fields: [txt]}}\n"
        for bound in (False, True):
            config = (f"roots: [{inside}]\n" if bound else "") + definition
            with Daemon(home, config=config) as daemon:
                shown, _ = run(home, "show", "stream:one", "--json", "--output", home / "x.png", PENSTOCK_SOCKET=daemon.socket)
                texts = [entry["txt"] for entry in json.loads(shown)["fields"]]
                expected = ["", ""] if bound else ["secret", "caption 2 ??"]
                assert texts[:2] == expected and texts[3] == "caption 3 ", texts
                broken = daemon.status()["streams"][0]["broken"] if daemon.status()["streams"] else {}
                assert not bound or broken.get("io", 2) == 2, broken


def test_old_client():
    with folder() as home:
        root, _ = dataset(home)
        with Daemon(home) as daemon:
            keys = {"source": str(root), "image_size": 32, "batch_size": 4, "fields": [{"name": "txt"}]}
            with Link(daemon.socket) as link:
                try:
                    link.open(**keys).opened()
                    raise AssertionError("a client that does not know of fields was given some")
                except Refused as refusal:
                    assert refusal.code == -errno.ENOTSUP and "the stream has fields" in str(refusal), refusal
                link.open(**{**keys, "fields": []}).opened()


if __name__ == "__main__":
    run_tests(globals())
