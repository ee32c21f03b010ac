"""Writing to buckets: `penstock pack SOURCE s3://...` and `penstock check URL --index`: against SeaweedFS and rclone, and, for what these do
not do when they are asked to, a store in this file (a stand-in: it checks no signatures).

    writing.py [test_NAME]     one test, or all

Only the standard library."""
import contextlib
import hashlib
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.parse
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from credentials import probe  # noqa: E402
from harness import LIMIT, folder, make_dataset, run_tests, tool, wait_until  # noqa: E402
from servers import KEYS, rclone, seaweedfs  # noqa: E402


class Store:
    """What the stand-in has, and what it does wrongly."""

    def __init__(self):
        self.objects, self.uploads, self.asked, self.lock = {"bucket/": b""}, {}, [], threading.Lock()
        self.refuse = lambda method, key, query: None  # a status instead of an answer
        self.before = lambda method, key, query: None  # called before an answer
        self.lose = set()  # methods and keys whose first answer is lost

    def keys(self, prefix=""):
        return sorted(key for key in self.objects if key.startswith(f"bucket/{prefix}") and key != "bucket/")


def etag(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_words):
        pass

    def send(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if "Content-Length" not in dict(headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status, code):
        self.send(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def handle_any(self):
        store, parts = self.server.store, urllib.parse.urlsplit(self.path)
        key, query = urllib.parse.unquote(parts.path).lstrip("/"), dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if body and self.headers.get("x-amz-content-sha256") != hashlib.sha256(body).hexdigest():
            return self.error(400, "XAmzContentSHA256Mismatch")
        try:
            store.before(self.command, key, query)
        except ConnectionResetError:
            self.close_connection = True
            return None
        with store.lock:
            store.asked.append((self.command, key, self.headers.get("Range"), query))
            status = store.refuse(self.command, key, query)
            if status:
                return self.error(status, {403: "AccessDenied", 501: "NotImplemented"}.get(status, "InternalError"))
            if f"{key.split('/')[0]}/" not in store.objects:
                return self.error(404, "NoSuchBucket")
            answer = getattr(self, f"on_{self.command.lower()}")(store, key, query, body)
            if (self.command, key) in store.lose:
                store.lose.remove((self.command, key))
                self.close_connection = True
                return None
            return self.send(*answer) if isinstance(answer, tuple) else self.error(*answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def on_get(self, store, key, query, _body):
        if "uploads" in query:
            shown = [(number, name) for number, (name, _parts) in sorted(store.uploads.items()) if name.startswith(f"bucket/{query.get('prefix', '')}")]
            rows = "".join(f"<Upload><Key>{name.partition('/')[2]}</Key><UploadId>{number}</UploadId></Upload>"
                           for number, name in shown[:int(query["max-uploads"])])
            return 200, f"<ListMultipartUploadsResult>{rows}</ListMultipartUploadsResult>".encode()
        if "list-type" in query:
            rows = "".join(f"<Contents><Key>{name.partition('/')[2]}</Key><Size>{len(store.objects[name])}</Size></Contents>"
                           for name in store.keys(query.get("prefix", "")))
            return 200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()
        if key not in store.objects:
            return [404, "NoSuchKey"]
        data = store.objects[key]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not wanted:
            return 200, data, (("ETag", etag(data)), ("Content-Length", str(len(data))))
        begin, end = int(wanted[1]), min(int(wanted[2]) + 1, len(data))
        return 206, data[begin:end], (("ETag", etag(data)), ("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}"))

    on_head = on_get

    def fits(self, store, key):
        if self.headers.get("If-None-Match") == "*" and key in store.objects:
            return False
        wanted = self.headers.get("If-Match")
        return not wanted or (key in store.objects and etag(store.objects[key]) == wanted)

    def on_put(self, store, key, query, body):
        if "uploadId" in query:
            if int(query["uploadId"]) not in store.uploads:
                return [404, "NoSuchUpload"]
            store.uploads[int(query["uploadId"])][1][int(query["partNumber"])] = body
        elif not self.fits(store, key):
            return [412, "PreconditionFailed"]
        else:
            store.objects[key] = body
        return 200, b"", (("ETag", etag(body)),)

    def on_post(self, store, key, query, body):
        if "uploads" in query:
            number = len(store.asked)
            store.uploads[number] = (key, {})
            return 200, f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>".encode()
        number = int(query["uploadId"])
        if number not in store.uploads:
            return [404, "NoSuchUpload"]
        if not self.fits(store, key):
            return [412, "PreconditionFailed"]
        parts = store.uploads.pop(number)[1]
        assert re.findall(rb"<ETag>(.*?)</ETag>", body) == [etag(parts[part]).encode() for part in sorted(parts)]
        assert all(len(parts[part]) >= 5 << 20 for part in sorted(parts)[:-1])
        store.objects[key] = b"".join(parts[part] for part in sorted(parts))
        return 200, b"<CompleteMultipartUploadResult/>"

    def on_delete(self, store, key, query, _body):
        if "uploadId" in query:
            store.uploads.pop(int(query["uploadId"]), None)
        else:
            store.objects.pop(key, None)
        return 204, b""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_request):
        """A client that was killed is none."""


@contextlib.contextmanager
def stand_in():
    """(store, endpoint)"""
    server = Server(("127.0.0.1", 0), Handler)
    server.store = Store()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.store, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def keys_of(endpoint):
    """Of s3:// and of gs://, which are the same store here: Google's HMAC keys sign as AWS's do."""
    return {"AWS_ENDPOINT_URL": endpoint, "STORAGE_EMULATOR_HOST": endpoint, **KEYS, **{name.replace("AWS", "GS", 1): key for name, key in KEYS.items()}}


def environment(endpoint, home, cache="cache"):
    return {**os.environ, **keys_of(endpoint), "XDG_CACHE_HOME": str(home / cache)}


def penstock(*words, env, code=0):
    run = subprocess.run([tool("penstock"), *map(str, words)], capture_output=True, text=True, timeout=LIMIT, env=env)
    assert run.returncode == code, (words, run.returncode, run.stdout, run.stderr)
    return run.stdout if code == 0 else run.stderr


def large_dataset(path):
    """Samples of 3 MiB that pack keeps as they are: few, and large enough for parts."""
    for number in range(5):
        name = path / f"c{number % 2}/{number}.ppm"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(b"P6 1024 1024 255\n" + hashlib.shake_128(bytes([number])).digest(1 << 16) * 48)
    return path


def packed_here(home, source, *options):
    """The files of a pack into a folder."""
    (home / "local").mkdir()
    penstock("pack", source, home / "local/x-%03d.tar", *options, env=environment("http://127.0.0.1:9", home))
    return {path.name: path.read_bytes() for path in (home / "local").iterdir()}


def check_pack(endpoint, home):
    """To a store, as s3:// and as gs://: the objects are the files of a folder, in parts and whole."""
    source = large_dataset(home / "images")
    files = packed_here(home, source, "--shard-size", "10M")
    assert sorted(len(data) > 8 << 20 for name, data in files.items() if name.endswith(".tar")) == [False, True], {n: len(d) for n, d in files.items()}
    for bucket in ("s3://bucket/out", "gs://bucket/google"):
        check_pack_to(bucket, endpoint, home, source, files)


def check_pack_to(bucket, endpoint, home, source, files):
    out, env = ("pack", source, f"{bucket}/x-%03d.tar", "--shard-size", "10M"), environment(endpoint, home)
    report = json.loads(penstock(*out, "--json", env=env))
    assert report["manifest"] == f"{bucket}/x.pack.json" and report["shards"] == 2, report
    lines = probe(*[f"{bucket}/{name}" for name in files], environment=keys_of(endpoint))
    assert lines == [f"ok {len(data)} {zlib.crc32(data):08x}" for data in files.values()], lines
    assert "already done" in penstock(*out, env=env)
    said = penstock("pack", source, f"{bucket[:5]}nobucket/x-%03d.tar", env=env, code=2)
    assert "nobucket" in said and "404" in said, said


def check_index(endpoint, home, shards, source="s3://bucket/t-*.tar"):
    """The index of a shard is stored beside it; another machine uses it and reads no sample."""
    env = environment(endpoint, home)
    first = json.loads(penstock("check", source, "--index", "--json", env=env))
    assert first["indexes"] == {"stored": shards, "there": 0, "cached": 0, "why": ""}, first
    again = json.loads(penstock("check", source, "--index", "--json", env=env))
    assert again["indexes"] == {"stored": 0, "there": shards, "cached": 0, "why": ""}, again
    other = json.loads(penstock("check", source, "--index-only", "--json", env=environment(endpoint, home, "elsewhere")))
    assert other["fingerprint"] == first["fingerprint"] and other["samples"] == first["samples"], other
    return first


def test_rclone():
    with rclone() as (endpoint, place), folder() as home:
        make_dataset(home / "tars", per_class=4, tars=True, per_shard=6)
        for number, path in enumerate(sorted((home / "tars").glob("*.tar"))):
            (place / f"bucket/t-{number}.tar").write_bytes(path.read_bytes())
        check_pack(endpoint, home)
        check_index(endpoint, home, 2)
        assert len(list((place / "bucket").glob("t-*.tar.idx"))) == 2


def test_seaweedfs():
    with seaweedfs() as endpoint, folder() as home:
        keys = {"AWS_ENDPOINT_URL": endpoint, **KEYS}
        assert probe("--put", "s3://bucket/", environment=keys) == ["end"]
        wait_until(lambda: probe("--put", "s3://bucket/first", environment=keys) == ["end"], "a place for objects")
        check_pack(endpoint, home)


def small_tars(store, home):
    make_dataset(home / "tars", per_class=4, tars=True, per_shard=6)
    for number, path in enumerate(sorted((home / "tars").glob("*.tar"))):
        store.objects[f"bucket/t-{number}.tar"] = path.read_bytes()
    return len(store.keys("t-"))


def test_index():
    """Where the index is stored, who reads what, what is never overwritten, where it stays otherwise."""
    with stand_in() as (store, endpoint), folder() as home:
        shards = small_tars(store, home)
        check_index(endpoint, home, shards)
        indexes = {key: store.objects[key] for key in store.keys("t-") if key.endswith(".idx")}
        assert len(indexes) == shards
        del store.asked[:]
        penstock("check", "s3://bucket/t-*.tar", "--index-only", env=environment(endpoint, home, "third"))
        # The first bytes of the first shard show its kind; of the shards nothing else is read.
        read = [one[2] for one in store.asked if one[0] == "GET" and one[1].endswith(".tar")]
        assert read == ["bytes=0-4095"], store.asked
        # An older index of penstock is replaced; a file of another program is not.
        one, other = sorted(indexes)
        store.objects[one] = indexes[other]
        store.objects[other] = b"mine " * 2000
        report = json.loads(penstock("check", "s3://bucket/t-*.tar", "--index", "--json", env=environment(endpoint, home)))
        assert report["indexes"]["stored"] == 1 and report["indexes"]["cached"] == 1 and "not an index" in report["indexes"]["why"], report
        assert store.objects[one] == indexes[one] and store.objects[other] == b"mine " * 2000
        # No permission to write: it says so, and the indexes in the cache folder serve.
        for key in indexes:
            del store.objects[key]
        store.refuse = lambda method, key, query: 403 if method == "PUT" else None
        run = subprocess.run([tool("penstock"), "check", "s3://bucket/t-*.tar", "--index"], capture_output=True, text=True, timeout=LIMIT,
                             env=environment(endpoint, home))
        assert run.returncode == 0 and "permission to write" in run.stderr and f"{shards} in the cache folder" in run.stdout, run


def test_gs():
    """As gs://: the same calls, without the conditions of S3, which Google's interface does not have for writing."""
    with stand_in() as (store, endpoint), folder() as home:
        conditions, fits = [], Handler.fits

        def noted(handler, store, key):
            conditions.append((handler.command, key, handler.headers.get("If-Match"), handler.headers.get("If-None-Match")))
            return fits(handler, store, key)
        Handler.fits = noted
        try:
            source = large_dataset(home / "images")
            files = packed_here(home, source, "--shard-size", "10M")
            check_pack_to("gs://bucket/out", endpoint, home, source, files)
            shards = small_tars(store, home)
            check_index(endpoint, home, shards, "gs://bucket/t-*.tar")
        finally:
            Handler.fits = fits
        assert conditions and not [one for one in conditions if one[2] or one[3]], conditions
        assert any("partNumber" in one[3] for one in store.asked) and not store.uploads, store.asked
        # What exists is not overwritten; a manifest that another pack has changed since ends this one.
        store.objects["bucket/more/x-001.tar"] = b"mine"
        said = penstock("pack", source, "gs://bucket/more/x-%03d.tar", "--shard-size", "10M", env=environment(endpoint, home), code=2)
        assert "x-001.tar exists" in said and store.objects["bucket/more/x-001.tar"] == b"mine", said


def test_resumed():
    """Killed while parts are sent, and after a shard that no manifest lists yet: the next run makes the same objects."""
    with stand_in() as (store, endpoint), folder() as home:
        source, env = large_dataset(home / "images"), environment(endpoint, home)
        files, out = packed_here(home, source, "--shard-size", "10M"), ("pack", source, "s3://bucket/out/x-%03d.tar", "--shard-size", "10M")
        for when in (lambda method, key, query: query.get("partNumber") == "2", lambda method, key, query: method == "PUT" and
                     key.endswith("x.pack.json") and "bucket/out/x-000.tar" in store.objects,
                     lambda method, key, query: method == "PUT" and key.endswith("x-001.tar")):
            reached, go_on = threading.Event(), threading.Event()

            def before(*asked, when=when, reached=reached, go_on=go_on):
                if when(*asked) and not reached.is_set():
                    reached.set()
                    go_on.wait(LIMIT)
                    raise ConnectionResetError("the pack was killed")
            store.before = before
            process = subprocess.Popen([tool("penstock"), *map(str, out)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            assert reached.wait(LIMIT), (when, store.keys())
            process.send_signal(signal.SIGKILL)
            process.wait()
            go_on.set()
        store.before = lambda *_asked: None
        store.uploads[999999] = ("bucket/out/other.bin", {})
        assert "continued after" in penstock(*out, env=env)
        assert {key.removeprefix("bucket/out/"): store.objects[key] for key in store.keys("out/")} == files
        # The upload that was cut off is gone, another's is not.
        assert list(store.uploads) == [999999], store.uploads


def test_swept():
    """Many unfinished uploads are aborted; a store that shows them all the same gets a sentence."""
    with stand_in() as (store, endpoint), folder() as home:
        source, env = large_dataset(home / "images"), environment(endpoint, home)
        out = ("pack", source, "s3://bucket/out/x-%03d.tar", "--shard-size", "10M")
        store.refuse = lambda method, key, query: 403 if "partNumber" in query else None
        penstock(*out, env=env, code=1)
        store.refuse, unfinished = lambda *_asked: None, {number: ("bucket/out/x-000.tar", {}) for number in range(10000, 11500)}
        store.uploads, store.asked = dict(unfinished), []
        # They are answered, and stay.
        on_delete, Handler.on_delete = Handler.on_delete, lambda *_asked: (204, b"")
        try:
            said = penstock(*out, env=env, code=1)
        finally:
            Handler.on_delete = on_delete
        assert "the list of unfinished uploads does not become shorter although 1000 of them were aborted" in said, said
        assert sum(one[0] == "DELETE" for one in store.asked) == 1000 and store.uploads == unfinished
        penstock(*out, env=env)
        assert not store.uploads, store.uploads


def test_refused():
    """What pack does not overwrite, and its sentences; requests that fail for a while, and answers that are lost."""
    with stand_in() as (store, endpoint), folder() as home:
        source, env = large_dataset(home / "images"), environment(endpoint, home)
        out = ("pack", source, "s3://bucket/out/x-%03d.tar", "--shard-size", "10M")
        files = packed_here(home, source, "--shard-size", "10M")
        store.objects["bucket/out/x-001.tar"] = b"mine"
        said = penstock(*out, env=env, code=2)
        assert "x-001.tar exists" in said and "nothing is overwritten" in said and store.keys() == ["bucket/out/x-001.tar"], said
        del store.objects["bucket/out/x-001.tar"]
        store.refuse = lambda method, key, query: 403 if method == "PUT" else None
        said = penstock(*out, env=env, code=1)
        assert "x.pack.json" in said and "403" in said and "permission to write" in said and not store.keys(), said
        # A part that cannot be written: nothing of its shard remains.
        store.refuse = lambda method, key, query: 403 if "partNumber" in query else None
        said = penstock(*out, env=env, code=1)
        assert "403" in said and store.keys() == ["bucket/out/x.pack.json"] and not store.uploads, (said, store.keys(), store.uploads)
        # Another pack has begun in between: this one stops.
        def another(method, key, query):
            if method == "PUT" and key.endswith("x-001.tar"):
                store.objects["bucket/out/x.pack.json"] += b" "
        store.refuse, store.before = lambda *_asked: None, another
        said = penstock(*out, env=env, code=1)
        assert "another penstock pack" in said, said
        # Stores that know no conditions, answers that are lost, 503.
        store.before, fails = lambda *_asked: None, [503, 500, 503]
        del store.objects["bucket/out/x.pack.json"], store.objects["bucket/out/x-000.tar"], store.objects["bucket/out/x-001.tar"]
        store.lose = {("PUT", "bucket/out/x-001.tar"), ("POST", "bucket/out/x-000.tar"), ("PUT", "bucket/out/x.pack.json")}
        store.refuse = lambda method, key, query: fails.pop() if fails and method in ("PUT", "POST") else None
        penstock(*out, env=env)
        assert {key.removeprefix("bucket/out/"): store.objects[key] for key in store.keys("out/")} == files
        for target, word in (("hf://datasets/a/b/x-%03d.tar", "s3:// and gs://"), ("https://host/x-%03d.tar", "s3:// and gs://"),
                             ("s3://x-%03d.tar", "s3"), ("s3://bucket/x.tar", "%06d")):
            assert word in penstock("pack", source, target, env=env, code=2), target
        # The output would be part of the source.
        said = penstock("pack", "s3://bucket/out/x-{000..001}.tar", "s3://bucket/out/x-%03d.tar", env=env, code=2)
        assert "part of the source" in said, said


if __name__ == "__main__":
    run_tests(globals())
