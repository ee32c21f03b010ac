"""URLs, signatures and listings against servers that others wrote: SeaweedFS, rclone, nginx, HAProxy.

    real_servers.py [test_NAME]     the test of one server, or all

Only the standard library."""
import contextlib
import os
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from credentials import probe  # noqa: E402
from harness import Daemon, Link, folder, make_dataset, run_tests, wait_until  # noqa: E402
from servers import KEYS, haproxy, nginx, rclone, seaweedfs  # noqa: E402

CLOCK_APART = os.environ.get("PENSTOCK_CLOCK_APART")  # clock_apart.c, where the build has it
NAMES = ["a b+c%41.bin", "\u00e4/\u20ac.bin", "n01/x.jpg", "n01/y.jpg", "n02/sub/z.jpg", "train-0.tar", "train-1.tar", "~'()!*.bin"]


def body(name):
    return name.encode() * 400


def ok(name):
    return f"ok {len(body(name))} {zlib.crc32(body(name)):08x}"


def check_store(endpoint, fill):
    """Keys of all kinds are read and listed; wrong keys are refused."""
    environment = {"AWS_ENDPOINT_URL": endpoint, **KEYS}
    fill()
    lines = probe(*[f"s3://bucket/data/{name}" for name in NAMES], environment=environment)
    assert lines == [ok(name) for name in NAMES], lines
    lines = probe("--list", "s3://bucket/data/", environment=environment)
    assert lines[-1] == "end" and sorted(line.rsplit(" ", 2)[0] for line in lines[:-1]) == sorted(f"data/{name}" for name in NAMES), lines
    assert all(line.rsplit(" ", 2)[1] == str(len(body(line.rsplit(" ", 2)[0].removeprefix("data/")))) for line in lines[:-1]), lines
    lines = probe("--glob", "s3://bucket/data/train-*.tar", "s3://bucket/data/n0?/*.jpg", environment=environment)
    assert [line.split()[0] for line in lines] == ["data/train-0.tar", "data/train-1.tar", "end", "data/n01/x.jpg", "data/n01/y.jpg", "end"], lines
    lines = probe("--folder", "s3://bucket/data", environment=environment)
    assert [line for line in lines if line.startswith("class")] == ["class n01", "class n02", "class \u00e4"], lines
    assert [line.split()[0] for line in lines if ".jpg" in line] == ["n01/x.jpg", "n01/y.jpg", "n02/sub/z.jpg"], lines
    # A machine whose clock is an hour ahead, and one whose clock is a day behind.
    for apart in ("3600", "-86400") if CLOCK_APART else ():
        lines = probe("s3://bucket/data/train-0.tar", environment={**environment, "LD_PRELOAD": CLOCK_APART, "PENSTOCK_CLOCK_APART_S": apart})
        assert lines == [ok("train-0.tar")], (apart, lines)
    for wrong in ({"AWS_SECRET_ACCESS_KEY": "hunter2"}, {"AWS_ACCESS_KEY_ID": "AKIDOTHER"}):
        lines = probe("s3://bucket/data/train-0.tar", environment={**environment, **wrong})
        assert lines[0].startswith("error") and "403" in lines[0] and "train-0.tar" in lines[0], lines
    lines = probe("s3://bucket/data/none", "s3://nobucket/x", environment=environment)
    assert all(line.startswith("error") for line in lines) and "404" in lines[0], lines


def test_rclone():
    with rclone() as (endpoint, home):
        def fill():
            for name in NAMES:
                (home / "bucket/data" / name).parent.mkdir(parents=True, exist_ok=True)
                (home / "bucket/data" / name).write_bytes(body(name))
        check_store(endpoint, fill)


def test_seaweedfs():
    with seaweedfs() as endpoint:
        environment = {"AWS_ENDPOINT_URL": endpoint, **KEYS}

        def fill():
            assert probe("--put", "s3://bucket/", environment=environment) == ["end"]
            # It answers before it has a place for the first object.
            wait_until(lambda: probe("--put", "s3://bucket/first", environment=environment) == ["end"], "a place for objects")
            for name in NAMES:
                assert probe("--text", body(name).decode(), "--put", f"s3://bucket/data/{name}", environment=environment) == ["end"], name
        check_store(endpoint, fill)


def test_daemon():
    """A daemon, confined, reads shards by a glob and class folders from a bucket: the rows are those of the local files."""
    with rclone() as (endpoint, place), folder() as home:
        make_dataset(place / "bucket/images", per_class=8)
        make_dataset(place / "bucket/tars", per_class=8, tars=True, per_shard=8)
        log = home / "daemon.log"
        with environment_of({"AWS_ENDPOINT_URL": endpoint, **KEYS}), Daemon(home, "--log-file", log) as daemon, Link(daemon.socket) as link:
            for what in ("tars/*.tar", "images"):
                local, remote = (link.open(source=f"{where}/{what}", batch_size=4, epochs=1).read() for where in (place / "bucket", "s3://bucket"))
                assert len(local) == 6 and [batch for _, batch in local] == [batch for _, batch in remote], what
            assert daemon.status()["confinement"]["seccomp"]
            assert KEYS["AWS_SECRET_ACCESS_KEY"] not in log.read_text() + daemon.text() + str(daemon.status())


@contextlib.contextmanager
def environment_of(more):
    """Processes that are started inside have these variables."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def check_web(url, environment=None):
    lines = probe(f"{url}/a%20b+c%2541.bin", f"{url}/n01/x.jpg", f"{url}/\u00e4/\u20ac.bin", environment=environment)
    assert lines == [ok("a b+c%41.bin"), ok("n01/x.jpg"), ok("\u00e4/\u20ac.bin")], lines
    lines = probe(f"{url}/none", environment=environment)
    assert "404" in lines[0] and "none" in lines[0], lines
    assert "does not list its files" in probe("--list", f"{url}/", environment=environment)[0]


def test_nginx():
    with nginx() as (plain, tls, certificate, home):
        for name in NAMES:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(body(name))
        check_web(plain)
        check_web(tls, {"SSL_CERT_FILE": str(certificate)})
        lines = probe(f"{tls}/n01/x.jpg")
        assert lines[0].startswith("error") and "certificate" in lines[0], lines


def test_haproxy():
    with nginx() as (plain, _, _, home):
        for name in NAMES:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(body(name))
        with haproxy(plain) as url:
            check_web(url)


if __name__ == "__main__":
    run_tests(globals())
