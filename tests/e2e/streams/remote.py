#!/usr/bin/env python3
"""Streams from URLs give the rows of the same files on disk: tars, a ZIP and a folder; cold and with a warm cache; what is
said where a URL cannot be read. A web server on loopback with ranges; S3 is rclone's, where it is installed."""
import contextlib
import functools
import hashlib
import http.server
import io
import json
import os
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
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, ROOT, Daemon, Link, Skip, folder, make_dataset, rows, run_tests, tool, wait_until

DISTURBED = 47  # the seed of a server whose stalls are far apart: requests 121, 347, 392, 449
KEYS = {"image_size": 24, "batch_size": 4, "seed": 5, "epochs": 2, "train": 1, "max_broken": 0, "on_broken": "fail"}
REFUSED = "this build reads no URLs"


def needs_urls():
    said = subprocess.run([tool("penstock"), "--version"], capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    if "s3" not in said.split("urls:")[-1].split("\n")[0]:
        raise Skip(REFUSED)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def log_message(self, *_words):
        pass

    def etag(self, data):
        return f'"{hashlib.md5(data).hexdigest()}"'

    def none(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, body):
        if self.server.gone:
            self.close_connection = True
            return None
        if self.path in self.server.failing:
            return self.none(503)
        path = self.server.root / self.path.lstrip("/")
        self.server.asked.append((self.command, self.path, self.headers.get("Range")))
        if not path.is_file():
            return self.none(404)
        data = path.read_bytes()
        etag = self.etag(data)
        if self.headers.get("If-Match", etag) != etag or (etag.startswith("W/") and "If-Match" in self.headers):
            return self.none(412)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        begin, end = (int(wanted[1]), min(int(wanted[2]) + 1, len(data))) if wanted else (0, len(data))
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", etag)
        self.send_header("Accept-Ranges", "bytes")
        if wanted:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        if body:
            self.wfile.write(data[begin:end])


class Bucket(Handler):
    """A STAND-IN for S3, which checks no signatures: its buckets are the folders in `root`."""
    form, listed = '"{}"', None  # of ETags; of those in listings, where they differ

    def etag(self, data):
        return self.form.format(hashlib.md5(data).hexdigest())

    def do_GET(self):
        path, _, query = self.path.partition("?")
        asked = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        return self.listing(self.server.root / path.strip("/"), asked) if "list-type" in asked else self.answer(True)

    def listing(self, bucket, asked):
        self.server.asked.append(("LIST", asked.get("prefix", ""), None))
        prefix, names, folders = asked.get("prefix", ""), [], set()
        for path in sorted(path for path in bucket.rglob("*") if path.is_file()):
            name = path.relative_to(bucket).as_posix()
            rest = name[len(prefix):]
            if not name.startswith(prefix):
                continue
            if asked.get("delimiter") and "/" in rest:
                folders.add(prefix + rest.partition("/")[0] + "/")
            else:
                data = path.read_bytes()
                etag = (self.listed or self.form).format(hashlib.md5(data).hexdigest()).replace('"', "&quot;")
                names.append(f"<Contents><Key>{name}</Key><Size>{len(data)}</Size><ETag>{etag}</ETag></Contents>")
        names += [f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>" for folder in sorted(folders)]
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(names)}</ListBucketResult>".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def web(root, failing=(), handler=Handler):
    """The URL of a server of the files below `root`, which answers with 503 at the paths in `failing`; and what it was asked."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.root, server.asked, server.gone, server.daemon_threads, server.failing = root, [], False, True, failing
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.asked
    finally:
        # Connections that are open have threads of their own.
        server.gone = True
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def s3(root):
    """The endpoint and the variables of an S3 server whose buckets are the folders in `root`."""
    binary = next((str(path) for path in (ROOT / ".venv-remote/bin/rclone", Path("/usr/bin/rclone")) if os.access(path, os.X_OK)),
                  shutil.which("rclone"))
    if not binary:
        raise Skip("no rclone")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open(root.parent / "rclone.log", "wb") as log:
        process = subprocess.Popen([binary, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", "AKID,secret/key", "--config",
                                    str(root.parent / "none.conf"), "--vfs-cache-mode", "off", "--no-checksum", str(root)], stdout=log, stderr=log)
    try:
        def answers():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0
        wait_until(answers, "rclone")
        yield {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret/key", "AWS_REGION": "us-east-1",
               "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    finally:
        process.terminate()
        process.wait(timeout=LIMIT)


def dataset(root):
    """images/CLASS/x.jpg, t-{0..2}.tar and all.zip with the same images."""
    images = make_dataset(root / "images", per_class=8, min_side=32, max_side=64)
    files = sorted(root.glob("images/*/*.jpg"))
    for shard in range(3):
        with tarfile.open(root / f"t-{shard}.tar", "w") as tar:
            for number, path in list(enumerate(files))[shard::3]:
                for name, data in ((f"{number:04}.jpg", path.read_bytes()), (f"{number:04}.cls", b"%d" % (number % 3))):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    with zipfile.ZipFile(root / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(root / "images"))
    return images


def rows_of(daemon, source, **keys):
    """What a trainer reads, without the line that says where from."""
    return rows(daemon.batches(source=source, **{**KEYS, **keys}))


def checked(home, source, environment=None, good=True):
    run = subprocess.run([tool("penstock"), "check", "--json", source], capture_output=True, text=True, timeout=LIMIT,
                         env={**os.environ, "XDG_CACHE_HOME": str(home / "check"), **(environment or {})})
    assert (run.returncode == 0) == good, (source, run.returncode, run.stdout, run.stderr)
    return json.loads(run.stdout) if good else run.stderr


def test_web():
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        cache = f"cache_dir: {home}/cache\ncache_size: 64M\n"
        with web(home / "data") as (url, asked):
            for name in ("t-{0..2}.tar", "all.zip"):
                assert checked(home, f"{url}/{name}")["fingerprint"] == checked(home, f"{home}/data/{name}")["fingerprint"]
            with Daemon(home) as daemon:
                local = {name: rows_of(daemon, f"{home}/data/{name}") for name in ("t-{0..2}.tar", "all.zip")}
                assert all(local.values())
                for name, wanted in local.items():
                    assert rows_of(daemon, f"{url}/{name}") == wanted, name
            with Daemon(home, config=cache) as daemon:
                assert rows_of(daemon, f"{url}/t-{{0..2}}.tar") == local["t-{0..2}.tar"]
            del asked[:]
            with Daemon(home, config=cache) as daemon:
                assert rows_of(daemon, f"{url}/t-{{0..2}}.tar") == local["t-{0..2}.tar"]
            # The cache has the images, and the index is in its folder.
            assert all(method == "HEAD" for method, _path, _range in asked), asked


def test_missing_cache_folder():
    """A cache folder that is missing is made. Where it cannot be made, or goes while a stream runs, the rows are the same, and the
    log says what is missing."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        (home / "file").touch()
        with web(home / "data") as (url, _asked):
            source = f"{url}/t-{{0..2}}.tar"
            with Daemon(home) as daemon:
                wanted = rows_of(daemon, source)
            with Daemon(home, config=f"cache_dir: {home}/file/cache\ncache_size: 64M\n") as daemon:
                assert rows_of(daemon, source) == wanted
                said = f"cache_dir {home}/file/cache: cannot store remote data in it: Not a directory; make it a folder that user {os.geteuid()} may write"
                assert said in daemon.text() and "streams go on without a cache" in daemon.text(), daemon.text()
            with Daemon(home, config=f"cache_dir: {home}/not/yet\ncache_size: 64M\n") as daemon:
                assert rows_of(daemon, source) == wanted
                assert list((home / "not/yet/remote").iterdir())
                trainer = daemon.trainer(source=source, **{**KEYS, "epochs": 0})
                while not rows([trainer.line()]):
                    pass
                shutil.rmtree(home / "not")
                for _line in range(50):
                    assert trainer.line()
                trainer.kill()
                assert rows_of(daemon, source) == wanted


def test_nodes_divide_the_work():
    """Four nodes of a job, each with a daemon and a cache of its own, read together what one daemon reads for the whole job: the same
    requests, a quarter each, also when each reads its part for the first time. Their caches together hold the dataset, and none alone."""
    needs_urls()
    with folder() as home:
        (home / "data/bucket").mkdir(parents=True)
        images = {path.relative_to(home / "data/bucket/images").as_posix() for path in dataset(home / "data/bucket").rglob("*.jpg")}
        with web(home / "data", handler=Bucket) as (url, asked):
            environment = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}

            def read(node, **keys):
                """The images that a node asks for in an epoch; twice, where the server was slow to answer."""
                (home / node).mkdir(exist_ok=True)
                del asked[:]
                with Daemon(home / node, environment=environment, config=f"cache_dir: {home / node}/kept\ncache_size: 64M\n") as daemon:
                    assert len(rows_of(daemon, "s3://bucket/images/", epochs=1, **keys)) == len(images) // 8
                return {path.removeprefix("/bucket/images/") for method, path, _range in asked if method == "GET" and path.endswith(".jpg")}

            def kept(node):
                return sum(path.stat().st_size for path in (home / node / "kept/remote").rglob("*.data"))

            assert read("whole", batch_size=8) == images
            nodes = [dict(batch_size=2, group="g", share="split", rank=rank, world_size=4) for rank in range(4)]
            parts = [read(f"node-{rank}", **keys) for rank, keys in enumerate(nodes)]
            assert [len(part) for part in parts] == [len(images) // 4] * 4 and set().union(*parts) == images, parts
            sizes = [kept(f"node-{rank}") for rank in range(4)]
            assert sum(sizes) == kept("whole") > 2 * max(sizes), (sizes, kept("whole"))
            assert [read(f"node-{rank}", **keys) for rank, keys in enumerate(nodes)] == [set()] * 4, "from their caches"


def requests_for_images(asked):
    """How many GETs and HEADs of different images; and of one image at most, once more: a request that is late on a busy machine is
    hedged, which the client does at most once in 50 requests."""
    images = [(method, path) for method, path, _ in asked if path.endswith(".jpg")]
    assert len(images) - len(set(images)) <= 1, asked
    return tuple(sum(one[0] == method for one in set(images)) for method in ("GET", "HEAD"))


def test_class_folders():
    """An image of a class folder in a bucket is one request, without a question for its ETag before: the listing gave it. One that is
    in the cache is none. ETags of parts, and weak ones, which no If-Match has; a store whose listing has others than its objects."""
    needs_urls()
    with folder() as home:
        (home / "data/bucket").mkdir(parents=True)
        local = dataset(home / "data/bucket")
        images = len(list(local.rglob("*.jpg")))
        with Daemon(home) as daemon:
            wanted = rows_of(daemon, str(local), epochs=1)
        for number, (form, listed, heads) in enumerate((('"{}"', None, 0), ('"{}-3"', None, 0), ('W/"{}"', None, 0), ('"{}"', '"not-{}"', images))):
            handler = type("Bucket", (Bucket,), {"form": form, "listed": listed})
            with web(home / "data", handler=handler) as (url, asked):
                environment, source = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}, "s3://bucket/images/"
                with Daemon(home, environment=environment, config=f"cache_dir: {home}/index-{number}\ncache_size: off\n") as daemon:
                    assert rows_of(daemon, source, epochs=1) == wanted, form  # makes the index
                    del asked[:]
                    assert rows_of(daemon, source, epochs=1) == wanted, form
                    assert requests_for_images(asked) == (images, heads), (form, asked)
                if form != '"{}"':
                    continue
                with Daemon(home, environment=environment, config=f"cache_dir: {home}/cache-{number}\ncache_size: 64M\n") as daemon:
                    assert rows_of(daemon, source, epochs=1) == wanted, form
                    del asked[:]
                    assert rows_of(daemon, source, epochs=1) == wanted, form
                    assert requests_for_images(asked) == (0, heads), (form, asked)


def test_class_folders_replaced():
    """An image that is replaced by one of the same size in mid-epoch is noticed: the folder is listed again, and the stream goes on."""
    needs_urls()
    with folder() as home:
        (home / "data/bucket").mkdir(parents=True)
        local = dataset(home / "data/bucket")
        with web(home / "data", handler=Bucket) as (url, asked):
            environment = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}
            with Daemon(home, environment=environment, config=f"cache: off\ncache_dir: {home}/cache\ncache_size: off\n") as daemon:
                trainer = daemon.trainer(source="s3://bucket/images/", **{**KEYS, "epochs": 0, "batch_size": 1, "sleep_ms": 2})
                while not trainer.line()[:1].isdigit():
                    pass
                listed = len([one for one in asked if one[0] == "LIST"])
                for path in local.rglob("*.jpg"):
                    data = path.read_bytes()
                    (home / "new").write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
                    os.replace(home / "new", path)
                wait_until(lambda: "images were rewritten in place" in daemon.text(), "the folder to be listed again")
                assert len([one for one in asked if one[0] == "LIST"]) > listed
                for _line in range(60):
                    assert trainer.line(), "the stream ended"
                trainer.kill()


def test_index_beside():
    """An index that a URL's owner put beside the shard is used; one of another file is not."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        with web(home / "data") as (url, asked):
            first = checked(home, f"{url}/t-0.tar")
            (index,) = (home / "check/penstock").glob("**/*.idx")
            shutil.copy(index, home / "data/t-0.tar.idx")
            shutil.copy(index, home / "data/t-1.tar.idx")
            index.unlink()
            del asked[:]
            again = checked(home, f"{url}/t-0.tar")
            assert again["fingerprint"] == first["fingerprint"]
            assert any(path == "/t-0.tar.idx" and method == "GET" for method, path, _range in asked), asked
            other = checked(home, f"{url}/t-1.tar")
            assert other["samples"] == 8 and other["fingerprint"] != first["fingerprint"]


def test_large_members():
    """A tar with members of more than 1 MiB is indexed by reading on: its requests are those of the ranges, not one for each header."""
    needs_urls()
    members, size = 12, (1 << 20) + 50000
    with folder() as home:
        (home / "data").mkdir()
        image = next(make_dataset(home / "images", per_class=1, min_side=32, max_side=64).glob("*/*.jpg")).read_bytes()
        with tarfile.open(home / "data/large.tar", "w") as tar:
            for number in range(members):
                info = tarfile.TarInfo(f"{number:04}.jpg")
                info.size = size
                tar.addfile(info, io.BytesIO(image + bytes(size - len(image))))
        with web(home / "data") as (url, asked):
            assert checked(home, f"{url}/large.tar")["decoded"] == members
            asked_for = [tuple(map(int, asked[2][6:].split("-"))) for asked in asked if asked[0] == "GET" and asked[2]]
            headers = [at for at, end in asked_for if end - at < 1 << 16]
            ranges = [at for at, end in asked_for if at % (2 << 20) == 0 and end > at + (1 << 16)]
            assert len(headers) <= 6, asked_for  # the kind, the start, the end
            assert len(ranges) <= members * size // (2 << 20) + 2, asked_for


class Late(Handler):
    """Every answer to a GET comes so much later. Reads no more of a file than was asked for."""
    late, lock, now = 0.25, threading.Lock(), [0, 0]  # requests now, and at most

    def answer(self, body):
        path = self.server.root / self.path.lstrip("/")
        self.server.asked.append((self.command, self.path, self.headers.get("Range")))
        if self.server.gone or not path.is_file():
            return self.none(404)
        size, wanted = path.stat().st_size, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        begin, end = (int(wanted[1]), min(int(wanted[2]) + 1, size)) if wanted else (0, size)
        with self.lock:
            self.now[0] += 1
            self.now[1] = max(self.now)
        time.sleep(self.late if body else 0)
        with self.lock:
            self.now[0] -= 1
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", f'"{size}"')
        if wanted:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        if body:
            with open(path, "rb") as file:
                file.seek(begin)
                self.wfile.write(file.read(end - begin))


def test_larger_members():
    """Members of up to 4 MiB are passed over by reading on, with several ranges under way; larger ones cost one small request each."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        image = next(make_dataset(home / "images", per_class=1, min_side=32, max_side=64).glob("*/*.jpg")).read_bytes()
        for name, members, size in (("some", 16, (4 << 20) - 512), ("large", 8, 5 << 20)):
            with open(home / f"data/{name}.tar", "wb") as out:
                for number in range(members):
                    info = tarfile.TarInfo(f"{number:04}.jpg")
                    info.size = size
                    out.write(info.tobuf(tarfile.GNU_FORMAT) + image)
                    out.seek(size - len(image), os.SEEK_CUR)
                out.write(bytes(10240))
        with web(home / "data", handler=Late) as (url, asked):
            for name, members in (("some", 16), ("large", 8)):
                del asked[:]
                Late.now[1] = 0
                run = subprocess.run([tool("penstock"), "check", "--index-only", "--json", f"{url}/{name}.tar"], capture_output=True, text=True,
                                     timeout=LIMIT, env={**os.environ, "XDG_CACHE_HOME": str(home / "check")})
                assert run.returncode == 0 and json.loads(run.stdout)["samples"] == members, (run.stdout, run.stderr)
                ranges = [tuple(map(int, one[2][6:].split("-"))) for one in asked if one[0] == "GET" and one[2]]
                large = [at for at, end in ranges if end - at > 1 << 20]
                if name == "some":
                    assert len(ranges) - len(large) < 8 and len(large) <= 34 and Late.now[1] >= 3, (Late.now, ranges)
                else:
                    assert not large and len(ranges) <= members + 8, ranges


def test_renewal_ends():
    """A folder is listed again, since its images were rewritten, by a server that does not answer: a stream that ends does not wait."""
    needs_urls()
    with folder() as home:
        (home / "data/bucket").mkdir(parents=True)
        local = dataset(home / "data/bucket")
        answer = threading.Event()

        class Silent(Bucket):
            def listing(self, bucket, asked):
                super().listing(bucket, asked) if not answer.is_set() else self.silent()

            def silent(self):
                self.server.asked.append(("SILENT", self.path, None))
                while not self.server.gone:
                    time.sleep(0.05)
                self.close_connection = True

        with web(home / "data", handler=Silent) as (url, asked):
            environment = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}
            with Daemon(home, environment=environment, config=f"cache_dir: {home}/cache\ncache_size: off\n") as daemon:
                trainer = daemon.trainer(source="s3://bucket/images/", **{**KEYS, "epochs": 0, "batch_size": 1, "sleep_ms": 2})
                while not trainer.line()[:1].isdigit():
                    pass
                answer.set()
                for path in local.rglob("*.jpg"):
                    (home / "new").write_bytes(path.read_bytes() + b"more")
                    os.replace(home / "new", path)
                wait_until(lambda: any(one[0] == "SILENT" for one in asked), "the folder to be listed again")
                trainer.kill()
                wait_until(lambda: not daemon.status()["streams"], "the stream to end")


def test_replaced():
    """A shard that was replaced is indexed again when it is opened."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        with web(home / "data") as (url, _asked):
            before = checked(home, f"{url}/t-0.tar")
            shutil.copy(home / "data/t-1.tar", home / "data/t-0.tar")
            after = checked(home, f"{url}/t-0.tar")
            assert after["fingerprint"] == checked(home, f"{url}/t-1.tar")["fingerprint"] != before["fingerprint"]


def test_pack():
    """From a URL: the same tars as from the files. Not to a web server (tests/remote/writing.py has buckets)."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        with web(home / "data") as (url, _asked):
            for out in ("one", "two"):
                (home / out).mkdir()
            for source, out in ((f"{home}/data/t-0.tar", "one"), (f"{url}/t-0.tar", "two")):
                subprocess.run([tool("penstock"), "pack", source, home / out / "x-%03d.tar"], check=True, capture_output=True, timeout=LIMIT,
                               env={**os.environ, "XDG_CACHE_HOME": str(home / "pack")})
            one, two = ({path.name: path.read_bytes() for path in (home / out).glob("*.tar")} for out in ("one", "two"))
            assert one and one == two
            run = subprocess.run([tool("penstock"), "pack", f"{url}/t-0.tar", f"{url}/x-%03d.tar"], capture_output=True, text=True, timeout=LIMIT)
            assert run.returncode == 2 and "writes to s3:// and gs:// only" in run.stderr, run


def test_resume():
    """A daemon that reads URLs is killed: the state goes on where it stopped, at the same and at another batch size; Parquet, too."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        shutil.copy(ROOT / "tests/containers/parquet/default.parquet", home / "data/p.parquet")
        keys = {**KEYS, "epochs": 3, "train": True}
        sources = ("t-{0..2}.tar", "p.parquet")
        with web(home / "data") as (url, _asked):
            daemon = Daemon(home)
            whole, begun = {}, {}
            with Link(daemon.socket) as link:
                for name in sources:
                    whole[name] = samples(link.open(source=f"{home}/data/{name}", **{**keys, "batch_size": 2}).read())
                    stream = link.open(source=f"{url}/{name}", **{**keys, "batch_size": 2})
                    got = stream.read(5)
                    assert samples(got) == whole[name][:10], name
                    begun[name] = stream.state(got[-1][0])
            assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
            with Daemon(home) as daemon, Link(daemon.socket) as link:
                for name in sources:
                    # The file's samples are odd in number: another batch size ends its epochs elsewhere.
                    for size in (2, 1) if name != "p.parquet" else (2,):
                        rest = samples(link.open(source=f"{url}/{name}", state=begun[name], **{**keys, "batch_size": size}).read())
                        assert rest == whole[name][10:], (name, size, len(rest))


def samples(got):
    return [row for _, some in got for row in some]


def test_replaced_while_read():
    """An object that is replaced in mid-epoch ends the stream with an error, and with no byte of the new object."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        with web(home / "data") as (url, _asked), Daemon(home) as daemon:
            trainer = daemon.trainer(source=f"{url}/t-{{0..2}}.tar", **{**KEYS, "epochs": 0, "batch_size": 1, "sleep_ms": 5})
            while not trainer.line()[:1].isdigit():
                pass
            shutil.copy(home / "data/t-1.tar", home / "data/new")
            with open(home / "data/new", "ab") as more:
                more.write(bytes(1024))
            os.replace(home / "data/new", home / "data/t-1.tar")
            said = trainer.error()
            assert "t-1.tar" in said and "412" in said and "changed while it was read" in said and "open it again" in said, said


def test_gone():
    """A server that never comes back: an error within timeout_s that names the URL and says what to do."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        # Without the cache: a dataset that is stored as a whole needs no server.
        with Daemon(home, config="cache: off\nremote: {timeout_s: 2}\n") as daemon:
            with web(home / "data") as (url, _asked):
                trainer = daemon.trainer(source=f"{url}/t-{{0..2}}.tar", **{**KEYS, "epochs": 0, "batch_size": 1, "sleep_ms": 5})
                while not trainer.line()[:1].isdigit():
                    pass
            begin = time.monotonic()
            said = trainer.error()
            assert time.monotonic() - begin < 15, said
            assert url in said and "timeout_s" in said and "check that it runs" in said, said


def test_disturbed():
    """5 % of the answers are 503, 1 % stall for a minute, 1 % end short, 2 % are reset: every row is right, and what would cost most
    does not happen: a limit of connections that is halved for a few 503, and a stream that waits until a stall counts as one."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        heavy(home / "data", samples=560, size=10_000)
        keys = {"epochs": 1, "batch_size": 16}
        with Daemon(home, config="cache: off\nremote: {connections: 16}\n") as daemon:
            wanted = rows_of(daemon, home / "data/b-{0..1}.tar", **keys)
            with counted(home / "data", "--disturb", f"{DISTURBED}:60") as (url, _asked):
                assert rows_of(daemon, f"{url}/b-{{0..1}}.tar", **keys) == wanted
                remote = daemon.status()["remote"]
        retried = remote["retried"]
        assert remote["requests"] > 500 and retried["slowdown"] > 15 and retried["reset"] > 3, remote
        assert remote["slowdowns"] == 0 and remote["connections_limit"] == 16, remote
        assert remote["hedges_won"] >= 3 and remote["hedges"] <= 1 + remote["done"] / 50 and retried.get("stall", 0) <= 1, remote


def slots(daemon, source, **keys):
    """How many slots a stream has."""
    trainer = daemon.trainer(source=source, **{**KEYS, "epochs": 0, "batch_size": 16, "sleep_ms": 20, **keys})
    while not trainer.line()[:1].isdigit():
        pass
    found = daemon.status()["streams"][0]["slots"]
    trainer.process.kill()
    trainer.process.wait()
    wait_until(lambda: not daemon.status()["streams"], "the end of the stream")
    return found


def test_slots():
    """A stream from a URL has slots for 512 samples, unless the trainer says how many, memory is short, or blocks are read ahead."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        with web(home / "data") as (url, _asked):
            source = f"{url}/t-{{0..2}}.tar"
            with Daemon(home) as daemon:
                assert slots(daemon, home / "data/t-{0..2}.tar") == 4
                assert slots(daemon, source) == 32
                assert slots(daemon, source, batch_size=4) == 64
                assert slots(daemon, source, prefetch=2) == 2
                assert slots(daemon, source, shuffle=2) == 4
            with Daemon(home, config="stream_memory: 4M\n") as daemon:
                assert 4 < slots(daemon, source, image_size=100) < 10


def test_labels_are_local():
    """Files beside the dataset are local ones; a URL gets a sentence."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        (home / "data/l.csv").write_text("a,1\n")
        with web(home / "data") as (url, _asked), Daemon(home) as daemon:
            for keys in ({"labels": json.dumps({"manifest": f"{url}/l.csv"})}, {"labels": json.dumps({"classes": f"{url}/l.csv"})},
                         {"indices": f"{url}/l.csv"}):
                said = daemon.trainer(source=f"{url}/t-0.tar", **{**KEYS, **keys}).error()
                assert f"{url}/l.csv" in said and "is read from local files only" in said and "copy it" in said, (keys, said)


class WholeFiles(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_words):
        pass


def test_no_ranges():
    """A server that sends whole objects only: what is near their beginning is read, and the rest is refused with a sentence."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        image = next(make_dataset(home / "images", per_class=1, min_side=32, max_side=64).glob("*/*.jpg")).read_bytes()
        for name, members in (("small", 2), ("large", 9)):
            with tarfile.open(home / f"data/{name}.tar", "w") as tar:
                for number in range(members):
                    info = tarfile.TarInfo(f"{number:04}.jpg")
                    info.size = 1 << 20
                    tar.addfile(info, io.BytesIO(image + bytes(info.size - len(image))))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(WholeFiles, directory=home / "data"))
        # A client that does not want the rest closes the connection.
        server.handle_error = lambda *_request: None
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}"
            assert checked(home, f"{url}/small.tar")["decoded"] == 2
            said = checked(home, f"{url}/large.tar", good=False)
            assert "large.tar" in said and "does not serve ranges; use a server that does" in said, said
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def test_beside_fails():
    """A server that does not say whether a file exists beside a shard: the opening fails with the server's reason, and the index that
    depends on the file is kept."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        images, labels = home / "data/train-images-idx3-ubyte", "train-labels-idx1-ubyte"
        images.write_bytes(struct.pack(">4I", 0x803, 40, 28, 28) + os.urandom(40 * 28 * 28))
        (home / "data" / labels).write_bytes(struct.pack(">2I", 0x801, 40) + bytes(number % 10 for number in range(40)))
        failing = set()
        with web(home / "data", failing) as (url, asked):
            source = f"{url}/{images.name}"
            with Daemon(home) as daemon:
                wanted = rows_of(daemon, source)
            failing.add(f"/{labels}")
            with Daemon(home, config="remote:\n  timeout_s: 1\n") as daemon:
                said = daemon.trainer(source=source, **KEYS).error()
            assert labels in said and "503" in said, said
            failing.clear()
            del asked[:]
            with Daemon(home) as daemon:
                assert rows_of(daemon, source) == wanted
            assert not any(path == f"/{labels}" and method == "GET" for method, path, _range in asked), asked


@contextlib.contextmanager
def counted(root, *options):
    """The URL of tests/remote/fault_server.py, and how many requests it has had."""
    server = subprocess.Popen([sys.executable, str(ROOT / "tests/remote/fault_server.py"), str(root), *options], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{server.stdout.readline().split()[1]}"
        yield url, lambda: int(urllib.request.urlopen(f"{url}/stats", timeout=LIMIT).read().split()[0])
    finally:
        server.stdin.close()
        server.wait(timeout=LIMIT)


BLOCKS = {"shuffle": 2, "window": 2, "epochs": 1, "prefetch": 2}


def heavy(root, samples=128, size=700_000):
    """b-{0,1}.tar with images of so many bytes each: blocks of 16."""
    make_dataset(root / "few", classes=2, per_class=samples // 2, min_side=32, max_side=64)
    files = sorted(root.glob("few/*/*.jpg"))
    for shard in range(2):
        with tarfile.open(root / f"b-{shard}.tar", "w") as tar:
            for number, path in list(enumerate(files))[shard * samples // 2:(shard + 1) * samples // 2]:
                data = path.read_bytes()
                info = tarfile.TarInfo(f"{number:04}.jpg")
                info.size = size
                tar.addfile(info, io.BytesIO(data + bytes(size - len(data))))
    return samples


def plan_requests(home, source):
    run = subprocess.run([tool("penstock"), "plan", source, "--json", "--shuffle", "blocks", "--window", "2", "--batch-size", "4", "--seed", "5"],
                         capture_output=True, text=True, timeout=LIMIT, env={**os.environ, "XDG_CACHE_HOME": str(home / "check")})
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)["reads"]["by_blocks"]["first"]["requests"]


def test_blocks():
    """Blocks are fetched by ranges: 2 requests for each of 8 blocks of 11 MB, another where it is in two shards, and less than one for
    each of the 16 samples of the block that is open at both ends of the epoch; besides one for each shard when the stream opens it. So
    says `plan`. A full shuffle has one for each sample. The rows are those of the files."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        samples = heavy(home / "data")
        opening, most = 2 * 2 + 1, 7 * 2 + 1 + 16 + 2 * 2 + 1  # with the question for the count itself
        off = "cache: off\n"
        with Daemon(home, "--memory", "1G", config=off) as daemon:
            local = rows_of(daemon, f"{home}/data/b-{{0,1}}.tar", **BLOCKS)
        with counted(home / "data") as (url, asked):
            source = f"{url}/b-{{0,1}}.tar"
            checked(home, source)
            with Daemon(home, "--memory", "1G", config=off) as daemon:
                assert rows_of(daemon, source, **BLOCKS) == local  # makes the index
                before = asked()
                assert rows_of(daemon, source, **BLOCKS) == local
                used = asked() - before
                assert used <= most < samples // 2, used
                planned = plan_requests(home, source)
                assert planned <= most and abs(used - planned) <= 4 + opening, (used, planned)
                before = asked()
                assert len(rows_of(daemon, source, **{**BLOCKS, "shuffle": 1, "window": 0})) == len(local)
                assert asked() - before >= samples, asked() - before
                # The memory is given back.
                wait_until(lambda: not [line for line in json.dumps(daemon.status()).split('"') if line.startswith("blocks of")], "the blocks to go")
            cache = f"cache_dir: {home}/cache\ncache_size: 200M\n"
            with Daemon(home, "--memory", "1G", config=off + cache) as daemon:
                assert rows_of(daemon, source, **BLOCKS) == local  # makes the index
            subprocess.run([tool("penstock"), "cache", "clear", "--cache-dir", home / "cache"], check=True, capture_output=True, timeout=LIMIT)
            with Daemon(home, "--memory", "1G", config=off + cache) as daemon:
                before = asked()
                assert rows_of(daemon, source, **BLOCKS) == local
                assert 16 < asked() - before <= most, asked() - before
            with Daemon(home, "--memory", "1G", config=off + cache) as daemon:
                before = asked()
                assert rows_of(daemon, source, **BLOCKS) == local
                assert asked() - before <= opening, asked() - before
            # Two ranks divide the blocks. The first may begin alone.
            ranks = []
            with Daemon(home, "--memory", "1G", config=off) as daemon:
                for place in (f"{home}/data/b-{{0,1}}.tar", source):
                    before = asked()
                    trainers = [daemon.trainer(source=place, **{**KEYS, **BLOCKS, "rank": rank, "world_size": 2, "share": "split", "group": "g"}) for rank in (0, 1)]
                    ranks.append([rows(trainer.finish()) for trainer in trainers])
                assert ranks[-1] == ranks[-2] and all(ranks[-1])
                assert asked() - before < 3 * samples // 4, asked() - before
            # Too little memory for the open blocks: a sentence, and the same rows.
            with Daemon(home, "--memory", "96M", config=off) as daemon:
                assert rows_of(daemon, source, **BLOCKS) == local
                assert "the open blocks of window 2 take" in daemon.text(), daemon.text()


def test_blocks_ends():
    """A stream that ends, or whose trainer is killed, while blocks are under way."""
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        heavy(home / "data")
        with counted(home / "data") as (url, _asked), Daemon(home, "--memory", "1G") as daemon:
            trainers = [daemon.trainer(source=f"{url}/b-{{0,1}}.tar", **{**KEYS, **BLOCKS, "epochs": 0, "seed": seed}) for seed in range(3)]
            for number, trainer in enumerate(trainers):
                for _line in range(6 * number):
                    trainer.line()
                trainer.kill()
            wait_until(lambda: not daemon.status()["streams"], "the streams to end")


def test_refused():
    needs_urls()
    with folder() as home:
        (home / "data").mkdir()
        dataset(home / "data")
        with web(home / "data") as (url, _asked):
            for source, words in ((f"{url}/none.tar", ("none.tar", "404")), (f"{url}/t-*.tar", ("has a star", "braces")),
                                  (f"{url}/t-{{0..3}}.tar", ("t-3.tar", "404")), (f"{{{url},{home}/data}}/t-0.tar", ("both URLs",)),
                                  ("ftp://127.0.0.1/x.tar", ("ftp",)), ("http://example.org/x.tar", ("plain_http",)),
                                  ("s3://", ("s3://",))):
                said = checked(home, source, good=False)
                assert all(word in said for word in words), (source, said)
            config = f"roots: [{home}/data]\n"
            with Daemon(home, config=config) as daemon:
                said = daemon.trainer(source=f"{url}/t-0.tar", **KEYS).error()
                assert "roots" in said, said
            with Daemon(home, config=f"roots: ['{url}/']\n") as daemon:
                assert rows_of(daemon, f"{url}/t-0.tar")
                said = daemon.trainer(source=f"{home}/data/t-0.tar", **KEYS).error()
                assert "roots" in said, said


def test_s3():
    needs_urls()
    with folder() as home:
        (home / "buckets/bucket").mkdir(parents=True)
        dataset(home / "buckets/bucket")
        with s3(home / "buckets") as environment:
            local = home / "buckets/bucket"
            for source, path in (("s3://bucket/t-*.tar", local / "t-*.tar"), ("s3://bucket/images/", local / "images"),
                                 ("s3://bucket/images", local / "images"), ("s3://bucket/all.zip", local / "all.zip")):
                assert checked(home, source, environment)["fingerprint"] == checked(home, str(path))["fingerprint"], source
            with Daemon(home, environment=environment) as daemon:
                assert rows_of(daemon, "s3://bucket/images/") == rows_of(daemon, str(local / "images"))
            # While class folders are read, the cache does not drop their objects to make room.
            with Daemon(home, config=f"cache_dir: {home}/cache\ncache_size: 64M\n", environment=environment) as daemon:
                trainer = daemon.trainer(source="s3://bucket/images", **{**KEYS, "epochs": 100000})
                while not rows([trainer.line()]):
                    pass
                holds = [path.read_text() for path in (home / "cache/remote").glob("hold-*")]
                assert any(hold.endswith("\ns3://bucket/images/") for hold in holds), holds
                trainer.kill()
            for source, words in (("s3://bucket/none/", ("does not exist",)), ("s3://bucket/x-*.tar", ("nothing matches",)),
                                  ("s3://bucket/{images,more}/", ("several folders",))):
                said = checked(home, source, environment, good=False)
                assert all(word in said for word in words), (source, said)


if __name__ == "__main__":
    run_tests(globals())
