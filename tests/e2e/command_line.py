"""Running the command `penstock` as a user does, and what it leaves behind."""
import contextlib
import json
import os
import struct
import subprocess
import zlib
from pathlib import Path

from harness import LIMIT, tool

RECORD = struct.Struct("<QqIIIIIIIIQQ")  # struct penstock_sample


def environment(home, **more):
    """Caches, temporary files and sockets below `home`."""
    (home / "tmp").mkdir(exist_ok=True)
    keep = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK") or k in ("PENSTOCK_BIN",)}
    keep.pop("XDG_RUNTIME_DIR", None)
    return {**keep, "XDG_CACHE_HOME": str(home / "cache"), "TMPDIR": str(home / "tmp"), **{k: str(v) for k, v in more.items()}}


def run(home, *args, code=0, env=None, **keys):
    """Runs the command to its end; (stdout, stderr)."""
    done = subprocess.run([tool("penstock"), *map(str, args)], env=env or environment(home), capture_output=True, text=True,
                          timeout=LIMIT, stdin=subprocess.DEVNULL, **keys)
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), f"penstock {' '.join(map(str, args))}: ended with {done.returncode}, not {code}\n{done.stderr}"
    return done.stdout, done.stderr


def refuse(home, *args, says, code=2, env=None):
    """It must end with `code`, print no result, and print one sentence that contains all of `says`."""
    out, err = run(home, *args, code=code, env=env)
    assert out == "", out
    assert err.startswith("penstock: "), err
    for words in [says] if isinstance(says, str) else says:
        assert words in err, f"expected {words!r} in {err!r}"
    return err


def left_behind(home):
    """Socket folders and daemons that a command of `home` left behind."""
    folders = [p.name for p in (home / "tmp").glob("penstock-own-*")]
    daemons = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            if str(home).encode() in line and b"penstockd" in line:
                daemons.append(line)
    return folders + daemons


def assert_clean(home):
    assert not left_behind(home), left_behind(home)


def start(home, *args):
    process = subprocess.Popen([tool("penstock"), *map(str, args)], env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    return process


def children(pid):
    with contextlib.suppress(OSError):
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def is_daemon(pid):
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "penstockd"
    return False


def served(home, daemon, **keys):
    """[(record, image's bytes)] that a trainer was given."""
    raw = home / "raw"
    raw.unlink(missing_ok=True)
    daemon.batches(source=home / "images", raw=raw, **keys)
    data, size = raw.read_bytes(), keys["image_size"] ** 2 * 3
    step = RECORD.size + size
    assert data and len(data) % step == 0
    return [(RECORD.unpack_from(data, at), data[at + RECORD.size:at + step]) for at in range(0, len(data), step)]


def replayed(home, *args):
    return json.loads(run(home, "replay", home / "images", "--json", *args)[0])["rows"]


def assert_same(rows, expected):
    assert len(rows) == len(expected), (len(rows), len(expected))
    for row, (record, image) in zip(rows, expected):
        index, label, *box, flags, _, position, _ = record
        assert (row["index"], row["label"], row["position"]) == (index, label, position), (row, record)
        assert row["crop"] + row["source_size"] == box, (row, record)
        shown = tuple(row[name] for name in ("flipped", "substituted", "padded", "invalid"))
        assert shown == tuple(bool(flags & bit) for bit in (1, 2, 4, 8)), (row, record)
        assert row["crc32"] == f"{zlib.crc32(image):08x}", (row, record)
