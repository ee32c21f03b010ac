"""Metrics and the page from outside: what they say is what trainers saw, and whatever is done to the port harms no trainer.

A daemon publishes once a second: what a test waits for, it waits for there. Nothing here asserts a time."""
import contextlib
import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness
import openmetrics
from harness import ROOT, Daemon, Link, Skip, folder, make_dataset, run_tests, tool, wait_until

SMALL = dict(batch_size=8, image_size=32)
OPEN = {"Accept": "application/openmetrics-text; version=1.0.0"}
PLACES = 64  # HTTP_CONNECTIONS
openmetrics.check_checker()


class Over(http.client.HTTPConnection):
    """A connection to where the daemon says that it listens: http://HOST:PORT/ or unix:/PATH."""

    def __init__(self, address):
        super().__init__("localhost", timeout=harness.LIMIT)
        self.address = address

    def connect(self):
        self.sock = connect(self.address)


def connect(address):
    if address.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        target = address[5:]
    else:
        host, port = re.fullmatch(r"http://(.*):(\d+)/", address).groups()
        connection = socket.socket(socket.AF_INET6 if "[" in host else socket.AF_INET)
        target = (host.strip("[]"), int(port))
    connection.settimeout(harness.LIMIT)
    try:
        connection.connect(target)
    except OSError:
        connection.close()
        raise
    return connection


def ask(address, path="/metrics", method="GET", body=None, **headers):
    """(status, headers, body) of one request."""
    connection = Over(address)
    try:
        connection.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def answers(address):
    """Whether a scrape works now."""
    try:
        return ask(address)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def raw(address, data, expected=None):
    """What the daemon says to these bytes, until it closes or `expected` is in it; where nothing is expected, what comes at once."""
    connection = connect(address)
    got = b""
    try:
        with contextlib.suppress(OSError):  # it may have answered before all was sent, and closed
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        connection.settimeout(harness.LIMIT if expected else 0.05)
        while not (expected and expected in got) and (part := connection.recv(65536)):
            got += part
    except OSError:
        pass
    finally:
        connection.close()
    return got


def scrape(address):
    status, headers, body = ask(address, **OPEN)
    assert status == 200 and headers["Content-Type"].startswith("application/openmetrics-text"), (status, headers)
    return openmetrics.values(openmetrics.read(body.decode()))


def value(samples, name, **labels):
    """The one sample of this name that has these labels."""
    found = [v for (n, have), v in samples.items() if n == name and labels.items() <= dict(have).items()]
    assert len(found) == 1, (name, labels, found)
    return found[0]


@contextlib.contextmanager
def serving(*options, **keys):
    """A daemon with a small dataset: it, its address, the images' folder."""
    with folder() as home:
        make_dataset(home / "images")
        with Daemon(home, "--threads", "1", "--http", "0", *options, **keys) as daemon:
            yield daemon, daemon.status()["http"], home / "images"


# ---- what is served ----

def test_both_texts_are_strictly_right():
    with serving() as (daemon, address, images), Link(daemon.socket) as link:
        odd = images.parent / 'a "b" \\ c\n\u00fc'
        images.rename(odd)
        streams = [link.open(source=odd, **SMALL), link.open(source=odd, group="g", **SMALL), link.open(source=odd, **SMALL)]
        for stream in streams:
            stream.read(3)
        wait_until(lambda: value(scrape(address), "penstock_streams") == 3, "three streams to be published")
        families = openmetrics.read(ask(address, **OPEN)[2].decode())
        status, headers, old = ask(address)
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers
        assert len(openmetrics.read(old.decode(), old=True)) == len(families)
        names = {s.labels["stream"] for s in families["penstock_stream_images"].samples}
        assert names == {str(odd).replace("\n", "?")[:100]}, names
        assert {s.labels["group"] for s in families["penstock_stream_images"].samples} == {"", "g"}
        promtool = shutil.which("promtool")
        if promtool:
            subprocess.run([promtool, "check", "metrics"], input=old, check=True, timeout=harness.LIMIT)


def test_counters_are_what_trainers_saw():
    with serving() as (daemon, address, images), Link(daemon.socket) as link:
        before = scrape(address)
        stream = link.open(source=images, **SMALL)
        stream.read(20)
        held = [stream.next(), stream.next()]
        now = wait_until(lambda: (lambda s: any(n == "penstock_trainer_batches_total" and v >= 22 for (n, _), v in s.items()) and s)(
            scrape(address)), "22 batches to be published")
        assert value(now, "penstock_trainer_batches_total", pid=str(os.getpid())) >= 22
        assert value(now, "penstock_batch_held_seconds_count") == 20
        assert value(now, "penstock_trainer_held_batches") >= len(held)
        made = value(now, "penstock_stream_images_total")
        assert made == value(now, "penstock_images_total") and made >= 22 * 8 and made % 1 == 0
        assert value(now, "penstock_batches_total") == value(now, "penstock_batch_fill_seconds_count")
        slots = {s: value(now, "penstock_stream_slots", state=s) for s in ("free", "filling", "ready", "leased")}
        assert sum(slots.values()) == stream.info.slots, slots
        status = json.loads(ask(address, "/status")[2])
        assert status["streams"][0]["images"] >= made and status["http"] == address
        assert set(status) == set(daemon.status()), "the same document as `penstock status --json`"
        stream.close()
        gone = wait_until(lambda: (lambda s: value(s, "penstock_streams") == 0 and s)(scrape(address)), "the stream to go")
        for name, more in (("images", made), ("samples", made), ("read_bytes", 1), ("batches", 22)):
            assert value(gone, f"penstock_{name}_total") >= value(before, f"penstock_{name}_total") + more, name
        assert not [n for (n, _), _ in gone.items() if n.startswith("penstock_stream_") and n != "penstock_streams_opening"]


def test_the_daemons_counters_never_go_down():
    with serving() as (daemon, address, images):
        last = {}
        for i in range(4):
            with Link(daemon.socket) as link:
                link.open(source=images, seed=i, **SMALL).read(10)
                wait_until(lambda: value(scrape(address), "penstock_batches_total") >= 10 * (i + 1), "its batches to be published")
                now = scrape(address)
            for (name, labels), v in now.items():
                if name.endswith(("_total", "_count", "_sum", "_bucket")) and "stream" not in dict(labels) and "pid" not in dict(labels):
                    assert v >= last.get((name, labels), 0), (name, labels)
                    last[name, labels] = v
            assert all(key in now for key in last), "a counter of the daemon has gone"


def test_the_start_stays_the_start():
    """An alert is raised when it changes, by a nanosecond as well."""
    with serving() as (_, address, _):
        texts = set()

        def another():
            texts.add(ask(address)[2].decode())
            return len(texts) == 5

        wait_until(another, "five publishings")
        starts = {line for text in texts for line in text.splitlines() if line.startswith("penstock_start_time_seconds ")}
        assert len(starts) == 1 and abs(float(starts.pop().split()[1]) - time.time()) < harness.LIMIT, starts


def test_what_the_recorder_missed_stays_counted():
    """One that was stopped hears nothing; when it is killed as well, what it missed is no less."""
    with serving() as (daemon, address, images):
        pid = wait_until(lambda: daemon.status()["recorder"], "the flight recorder")["pid"]
        os.kill(pid, signal.SIGSTOP)

        def missed():
            for _ in range(20):
                with Link(daemon.socket) as link:
                    link.open(source=images, group="all", **SMALL).opened()
            return daemon.status()["recorder"]["dropped"]
        before = wait_until(missed, "its socket to be full")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: value(scrape(address), "penstock_recorder_up") == 0, "its end to be seen")
        assert value(scrape(address), "penstock_recorder_dropped_records_total") >= before


def test_who_waits_is_measured():
    with serving() as (daemon, address, images), Link(daemon.socket) as link:
        stream = link.open(source=images, prefetch=2, **SMALL)
        stream.read(40)  # gives each back at once, and one thread is slower
        wait_until(lambda: value(scrape(address), "penstock_batch_wait_seconds_count") > 0, "a wait")
        waits = wait_until(lambda: daemon.status()["streams"][0]["waits_ms"], "waits in the status")
        assert 0 < waits["p50"] <= waits["p99"], waits


def test_memory_is_measured_while_the_recorder_runs():
    with serving() as (daemon, address, images), Link(daemon.socket) as link, Link(daemon.socket) as second:
        stream, other = link.open(source=images, **SMALL), second.open(source=images, **SMALL)
        stream.read(2), other.read(2)
        wanted = ("penstock_trainer_resident_bytes", (("pid", str(os.getpid())),))
        all_of_it = {wanted, *((f"penstock_{name}_bytes", ()) for name in ("resident", "machine_memory", "machine_memory_available"))}
        now = wait_until(lambda: (lambda s: all_of_it <= s.keys() and s)(scrape(address)), "this process, the daemon and the machine to be measured")
        assert 1 << 20 < now[wanted] < 1 << 40 and now["penstock_recorder_up", ()] == 1
        assert 1 << 20 < now["penstock_resident_bytes", ()] < now["penstock_machine_memory_bytes", ()]
        assert now["penstock_machine_memory_available_bytes", ()] <= now["penstock_machine_memory_bytes", ()]
        for (name, _), v in now.items():
            assert name != "penstock_pressure_ratio" or 0 <= v <= 1, v
    with serving("--recorder", "off") as (daemon, address, images):
        now = scrape(address)
        assert now["penstock_recorder_up", ()] == 0 and not [n for n, _ in now if "machine" in n or "resident" in n or "pressure" in n], now


def test_the_peak_of_a_device_outlives_connections():
    """It is the process's: another connection of it does not begin anew, and goes on when the first is closed."""
    library = harness.BIN.parent / "fake_nvml/v3"
    if not (library / "libnvidia-ml.so.1").exists():
        raise Skip("the made-up NVML is not built")
    with folder() as home:
        listed = home / "listed"

        def use(size):
            (home / "next").write_text(f"{os.getpid()} {size}\n")
            (home / "next").rename(listed)
        use(5000)
        with serving(environment={"LD_LIBRARY_PATH": str(library), "PENSTOCK_FAKE_NVML": str(listed)}) as (daemon, address, images):
            def seen(now):
                with contextlib.suppress(AssertionError):
                    samples = scrape(address)
                    if value(samples, "penstock_trainer_gpu_bytes") == now:
                        return samples

            def measured():
                return [t["gpu_bytes"] for s in daemon.status()["streams"] for t in s["trainers"]]
            first = Link(daemon.socket)
            first.open(source=images, **SMALL).read(1)
            assert value(wait_until(lambda: seen(5000), "its memory"), "penstock_trainer_gpu_peak_bytes") == 5000
            use(2000)
            with Link(daemon.socket) as second:
                second.open(source=images, seed=1, **SMALL).read(1)
                wait_until(lambda: measured() == [2000, 2000], "both connections to be measured")
                assert value(wait_until(lambda: seen(2000), "less memory"), "penstock_trainer_gpu_peak_bytes") == 5000
                first.close()
                wait_until(lambda: len(measured()) == 1, "the first to be gone")
                use(3000)
                assert value(wait_until(lambda: seen(3000), "the second alone"), "penstock_trainer_gpu_peak_bytes") == 5000


def test_documents_and_what_is_none():
    with serving() as (daemon, address, images):
        status, headers, page = ask(address, "/")
        assert status == 200 and headers["Content-Type"].startswith("text/html") and b"<title>" in page
        assert "'none'" in headers["Content-Security-Policy"] and "unsafe" not in headers["Content-Security-Policy"]
        assert not re.search(rb"""(src|href)=["']?(https?:)?//""", page), "the page fetches from elsewhere"
        for path in ("/", "/metrics", "/status", "/healthz", "/nothing"):
            status, headers, body = ask(address, path)
            assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store", path
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin", path
            head, headers, none = ask(address, path, method="HEAD")
            assert head == status and not none and int(headers["Content-Length"]) > 0, path
        assert ask(address, "/healthz")[0] == 200
        for path in ("/nothing", "//metrics", "/metrics/", "/../etc/passwd", "/%2e%2e/x"):
            status, _, body = ask(address, path)
            assert status == 404 and b"/metrics" in body, (path, status, body)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"):
            status, headers, body = ask(address, method=method)
            assert status == 405 and headers["Allow"] == "GET, HEAD" and b"only GET" in body, (method, status)
        assert ask(address, method="GET", body=b"x" * 100000)[0] == 413
        assert ask(address, "/metrics?x=1")[0] == 200
        assert ask(address, "/sheet?stream=0")[0] == ask(address, "/sheet.json")[0] == ask(address, "/sheet?stream=9")[0] == 404
        for stream in ("", "x", "-1", "1x", "99999"):
            assert ask(address, f"/sheet?stream={stream}")[0] == 400, stream


def test_connections_are_kept_and_reused():
    with serving() as (daemon, address, images):
        connection = Over(address)
        for path in ("/metrics", "/nothing", "/status", "/healthz") * 3:
            connection.request("GET", path)
            connection.getresponse().read()
        assert connection.sock, "the daemon closed a good connection"
        connection.close()
        both = raw(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5 + b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n", b"not found: this server")
        assert both.count(b"200 OK") == 5, "pipelined"
        assert b"good" in raw(address, b"GET /healthz HTTP/1.0\r\n\r\n", b"good"), "no Host, as HTTP/1.0 has none"


def test_sheet_of_other_values_is_the_same_picture():
    pictures = {}
    with serving() as (daemon, address, images):
        for dtype, layout, views in (("uint8", "NHWC", 1), ("uint8", "NCHW", 1), ("float32", "NHWC", 1), ("float16", "NCHW", 1),
                                     ("bfloat16", "NHWC", 2)):
            with Link(daemon.socket) as link:
                stream = link.open(source=images, **{**SMALL, "epochs": 0, "prefetch": 2}, dtype=dtype, layout=layout, views=views)
                stream.opened()
                wait_until(lambda: stream.pending() == 2, "both slots to be filled")
                status, _, text = ask(address, "/sheet.json?stream=0")
                sheet = json.loads(text)
                assert status == 200 and sheet["batch"] == 1 and sheet["rows"] == 8 * views, sheet
                status, _, pictures[dtype, layout] = ask(address, "/sheet?stream=0")
                assert status == 200
            wait_until(lambda: not daemon.status()["streams"], "the stream to go")
            time.sleep(1)  # the picture is old now
    plain = pictures.pop(("uint8", "NHWC"))
    assert pictures.pop(("bfloat16", "NHWC")) != plain, "two views are twice as many images"
    assert all(picture == plain for picture in pictures.values()), "an image is one whatever its values are"


def test_sheet_is_the_batch():
    with serving() as (daemon, address, images), Link(daemon.socket) as link:
        stream = link.open(source=images, **SMALL)
        batch = stream.next()
        status, headers, png = ask(address, "/sheet?stream=0")
        assert status == 200 and headers["Content-Type"] == "image/png" and png.startswith(b"\x89PNG\r\n"), status
        width, height = struct.unpack_from(">II", png, 16)
        status, headers, text = ask(address, "/sheet.json?stream=0")
        sheet = json.loads(text)
        assert status == 200 and headers["Content-Type"] == "application/json" and sheet["rows"] == 8, sheet
        assert width >= sheet["columns"] * 32 and height >= 32
        shown = [image["index"] for image in sheet["images"]]
        while batch and batch.batch != sheet["batch"]:
            stream.release(batch)
            batch = stream.next()
        assert shown == [row.index for row in stream.rows(batch)], "other images than the trainer's"
        # Many at once cost one copy; who asks for another stream waits for its turn.
        connections = [Over(address) for _ in range(20)]
        for i, connection in enumerate(connections):
            connection.request("GET", f"/sheet?stream={i % 3}")
        codes = [connection.getresponse().status for connection in connections]
        assert codes == [200 if i % 3 == 0 else 404 for i in range(20)], codes
        for connection in connections:
            connection.close()
        stopped = Over(address)
        time.sleep(1)  # the last sheet is old now
        stopped.request("GET", "/sheet?stream=0")
        stopped.close()  # gone before it is answered
        assert answers(address)


def test_long_names_of_classes_are_cut_between_characters():
    with serving() as (daemon, address, images), Link(daemon.socket) as link:
        for place, folder_of_class in enumerate(sorted(f for f in images.iterdir() if f.is_dir())):
            folder_of_class.rename(images / ("\u00fc" * 40 + str(place)))  # 80 bytes; a name has room for 63
        stream = link.open(source=images, **SMALL)
        stream.next()
        rows = json.loads(ask(address, "/sheet.json?stream=0")[2])["images"]
        assert {row["class"] for row in rows} == {"\u00fc" * 31}, rows


# ---- who asks ----

def test_host_is_checked():
    with serving() as (daemon, address, images):
        port = address.rstrip("/").rsplit(":", 1)[1]
        for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port}", "[::1]", "10.0.0.1", socket.gethostname()):
            assert ask(address, "/status", Host=host)[0] == 200, host
        refused = value(scrape(address), "penstock_http_refused_total")
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.nip.io", "a@localhost", "localhost:80x"):
            status, _, body = ask(address, "/status", Host=host)
            assert status == 403 and b"address" in body and b"streams" not in body, (host, status)
        wait_until(lambda: value(scrape(address), "penstock_http_refused_total") >= refused + 6, "refusals to be counted")


# ---- harm ----

def reads_on(daemon, images, batches=30):
    """A trainer gets its batches, and one that comes now does too."""
    assert len(harness.rows(daemon.batches(source=images, batches=batches, **SMALL))) == batches


def test_garbage_and_halves():
    chance = random.Random(int(os.environ.get("PENSTOCK_TEST_SEED", "7")))
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
    made = [b"", b"\r\n" * 1000, b"\0" * 5000, b"GET", b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
            b"GET / HTTP/1.1\r\n\r\n", b"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET http://evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 70000 + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(20000)) + b"\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
            b"GET /sheet?stream=" + b"0" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /sheet?" + b"&stream=1" * 500 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"]
    made += [request[:cut] for cut in range(1, len(request), 7)]
    for _ in range(60):
        flipped = bytearray(request)
        for _ in range(chance.randrange(1, 6)):
            flipped[chance.randrange(len(flipped))] = chance.randrange(256)
        made += [bytes(flipped), chance.randbytes(chance.randrange(1, 400))]
    with serving() as (daemon, address, images):
        fds = daemon.fds()
        for data in made:
            large = data.startswith((b"GET /aaaa", b"GET / HTTP/1.1\r\nHost: localhost\r\nX"))
            answer = raw(address, data, b"HTTP/1.1 4" if large else None)
            assert not answer or answer.startswith(b"HTTP/1."), (data[:80], answer[:80])
            if large and answer:  # none: the rest of what was sent reset the connection
                assert re.match(rb"HTTP/1.1 4(14|31)", answer), (data[:50], answer[:80])
        reads_on(daemon, images)
        assert answers(address)
        wait_until(lambda: daemon.fds() <= fds, "all connections to be closed")


def many(address, count):
    """Connections that each said a part of a request, as far as they are let in."""
    connections = []
    for i in range(count):
        with contextlib.suppress(OSError):
            connection = connect(address)
            connections.append(connection)
            connection.setblocking(False)
            connection.send(b"GET /metrics HTTP/1.1\r\nX: "[:i % 25])
    return connections


def trickle(connections):
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.send(b"y")


def room_for(descriptors):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < descriptors:
        raise Skip(f"ulimit -Hn allows {hard} descriptors, and this needs {descriptors}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, descriptors), hard))


def test_a_thousand_slow_connections():
    room_for(2000)
    for place in ("0", "auto"):
        with serving("--http", place) as (daemon, address, images):
            fds = daemon.fds()
            trainer = daemon.trainer(source=images, batches=60, sleep_ms=10, **SMALL)
            trainer.line()
            slow = many(address, 1000 if place == "0" else 200)
            trickle(slow)
            # Its connection and its stream's memory and pidfd come on top.
            assert daemon.fds() <= fds + PLACES + 8, "more connections than there are places"
            wait_until(lambda: trickle(slow) or answers(address), "a scrape to get through")
            reads_on(daemon, images)
            assert len(harness.rows(trainer.finish())) == 60
            wait_until(lambda: value(scrape(address), "penstock_http_refused_total") > 0, "refusals to be counted")
            for connection in slow:
                connection.close()
            wait_until(lambda: daemon.fds() <= fds, "all connections to be closed")


def test_a_request_that_never_ends_is_ended():
    with serving() as (daemon, address, images):
        asks_nothing, trickles, keeps = connect(address), connect(address), Over(address)
        keeps.request("GET", "/healthz")
        keeps.getresponse().read()
        trickles.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        ended = set()

        def all_ended():
            for connection in {asks_nothing, trickles, keeps.sock} - ended:
                with contextlib.suppress(BlockingIOError, TimeoutError):
                    try:
                        connection.settimeout(0.05)
                        if connection is trickles:
                            connection.send(b"y")  # never silent
                        if not connection.recv(1):
                            ended.add(connection)
                    except (ConnectionResetError, BrokenPipeError):
                        ended.add(connection)
            return len(ended) == 3

        wait_until(all_ended, "the daemon to end them")
        for connection in ended:
            connection.close()
        assert answers(address)


def test_who_does_not_read_its_answer():
    """Answers that nobody takes hold their places only while nobody else needs them."""
    with serving() as (daemon, address, images):
        fds = daemon.fds()
        lazy = []
        for _ in range(PLACES):
            connection = connect(address)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300)
            lazy.append(connection)
        reads_on(daemon, images)
        wait_until(lambda: answers(address), "a scrape to get through")
        for connection in lazy:
            connection.close()
        wait_until(lambda: daemon.fds() <= fds, "all connections to be closed")


def test_few_descriptors_are_left_to_trainers():
    room_for(1000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with folder() as home:
        make_dataset(home / "images")
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        try:
            daemon = Daemon(home, "--threads", "1", "--http", "0")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with daemon:
            address, fds = daemon.status()["http"], daemon.fds()
            slow = many(address, 200)
            assert daemon.fds() <= fds + 128 // 8 + 2, "HTTP takes more than its share"
            reads_on(daemon, home / "images")
            for connection in slow:
                connection.close()


# ---- where it listens ----

def status_line(daemon, word):
    """The daemon's warning that has this word, in its log and in its status."""
    notices = daemon.status()["notices"]
    found = [n for n in notices if word in n]
    assert found and word in daemon.text(), (word, notices)
    return found[0]


def serves_without(daemon, home, word):
    """A warning says so, and trainers are served."""
    line = status_line(daemon, word)
    assert "http" in line and daemon.status()["http"] == "", line
    reads_on(daemon, home / "images", batches=5)


def test_addresses_that_cannot_be_had():
    with folder() as home, socket.socket() as taken, socket.socket(socket.AF_UNIX) as alive:
        make_dataset(home / "images")
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        alive.bind(str(home / "alive.sock"))
        alive.listen()
        (home / "file").write_text("mine")
        for place, word in ((str(taken.getsockname()[1]), "another process listens there"), ("192.0.2.7:9470", "does not have that address"),
                            ("no-such-host.invalid:80", "no-such-host.invalid"), (f"unix:{home}/alive.sock", "another process listens"),
                            (f"unix:{home}/file", "not a socket"), (f"unix:{home}/none/x.sock", "folder")):
            with Daemon(home, "--threads", "1", "--http", place) as daemon:
                serves_without(daemon, home, word)
        assert (home / "file").read_text() == "mine" and (home / "alive.sock").is_socket()


def test_a_socket_whose_folder_is_long():
    with folder() as home:
        make_dataset(home / "images")
        deep = home / ("x" * (100 - len(str(home))))
        deep.mkdir(mode=0o700)
        short = Daemon(home, "--threads", "1", "--socket", str(deep / "s"), expect_start=False)
        short.socket = str(deep / "s")
        wait_until(lambda: short.listens() or short.process.poll() is not None, "the socket")
        with short:
            serves_without(short, home, "a Unix socket's may have")


def test_wrong_addresses_are_refused_at_the_start():
    for place, word in (("localhost", "a port is a number"), ("unix:x", "absolute"), ("::1:80", "brackets"), ("", "expected auto"),
                        ("unix:/" + "x" * 200, "a Unix socket's may have")):
        run = subprocess.run([tool("penstockd"), "--http", place, "--check-config"], capture_output=True, text=True, timeout=harness.LIMIT)
        assert run.returncode == 2 and "--http" in run.stderr and word in run.stderr, run
    with folder() as home:
        (home / "c.yaml").write_text("memory: 1G\nhttp: 70000\n")
        run = subprocess.run([tool("penstockd"), "--config", home / "c.yaml", "--check-config"], capture_output=True, text=True,
                             timeout=harness.LIMIT)
        assert run.returncode == 2 and "c.yaml:2:7: http: expected" in run.stderr, run.stderr


def test_off_and_the_default():
    with folder() as home:
        make_dataset(home / "images")
        path = home / "run/http.sock"
        with Daemon(home, "--threads", "1", "--http", "off") as daemon:
            assert daemon.status()["http"] == "" and not path.exists()
            reads_on(daemon, home / "images", batches=3)
        with Daemon(home, "--threads", "1", config="threads: 1\n") as daemon:
            assert daemon.status()["http"] == f"unix:{path}" and not daemon.status()["notices"]
            assert stat.S_IMODE(path.lstat().st_mode) == 0o600
            assert ask(f"unix:{path}")[0] == 200
            daemon.config.write_text("http: 0\n")
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "need a restart" in daemon.text(), "the reload")
            assert daemon.status()["http"] == f"unix:{path}", "http changes with a restart alone"
        assert not path.exists(), "the socket was left"


def test_a_dead_daemons_socket_is_replaced():
    with folder() as home:
        make_dataset(home / "images")
        first = Daemon(home, "--threads", "1")
        first.stop(signal.SIGKILL)
        path = home / "run/http.sock"
        assert path.is_socket()
        with Daemon(home, "--threads", "1") as daemon:
            assert not daemon.status()["notices"]  # its loop runs: the page is there
            assert ask(f"unix:{path}")[0] == 200


def test_an_address_for_others_warns():
    with serving("--http", "0.0.0.0:0") as (daemon, address, images):
        assert "everyone who can reach" in status_line(daemon, "everyone who can reach")
        assert ask(address.replace("0.0.0.0", "127.0.0.1"))[0] == 200


def test_draining_ends_it():
    with serving() as (daemon, address, images):
        slow = many(address, 10)
        trainer = daemon.trainer(source=images, batches=100000, **SMALL)
        trainer.line()
        assert daemon.stop() == 0
        trainer.process.communicate(timeout=harness.LIMIT)
        for connection in slow:
            connection.close()


# ---- what is written about it ----

def test_every_metric_is_documented():
    with serving() as (daemon, address, images):
        families = openmetrics.read(ask(address, **OPEN)[2].decode())
    rows = re.findall(r"^\| `(penstock_\w+)` \| (\w+) \|", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE)
    documented = dict(rows)
    assert len(rows) == len(documented), "one stands there twice"
    emitted = {f.name: f.type for f in families.values()}
    assert documented == emitted, sorted(set(documented.items()) ^ set(emitted.items()))


if __name__ == "__main__":
    run_tests(globals())
