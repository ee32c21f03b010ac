"""What is tortured: whole daemons with a small piece of work each, and what that work gave.

A scenario has `options` and `config` of its daemon, `prepare` (once: its files), `reset` (before each piece of work, in the daemon's home) and
`act`, the work: it notes what it was given in an Outcome, under names, so that two of them can be compared whatever happened on the way.
Only the standard library."""
import contextlib
import http.client
import json
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from harness import ERROR, HungUp, Link, Refused, make_dataset  # noqa: E402

SUBSTITUTED, PADDED, INVALID = 2, 4, 8
SIZE = {"batch_size": 4, "image_size": 16, "prefetch": 3}


class Hung(Exception):
    """The daemon said nothing for too long."""


class Outcome:
    """What a piece of work was given: {name: rows}, {name: the sentence that it ended with}, {name: other things that were said}."""

    def __init__(self):
        self.rows, self.errors, self.said = {}, {}, {}

    @contextlib.contextmanager
    def part(self, name):
        """An error ends this part alone."""
        try:
            yield
        except Refused as error:
            self.errors[name] = error.sentence
        except (HungUp, ConnectionError, FileNotFoundError, http.client.HTTPException) as error:
            self.errors[name] = f"({type(error).__name__})"
        except TimeoutError:
            raise Hung(name) from None
        except AssertionError as error:
            # harness.Raw: the daemon hung up while something was waited for.
            if "hung up" not in str(error) and "WELCOME" not in str(error) and str(error):
                raise
            self.errors[name] = "(hung up)"

    def take(self, name, stream, batches):
        """Reads and releases so many batches of a stream, fewer when it ends."""
        rows = self.rows.setdefault(name, [])
        with self.part(name):
            for _ in range(batches):
                batch = stream.next()
                if batch is None:
                    break
                rows += [(batch.epoch, *row) for row in stream.rows(batch)]
                stream.release(batch)


class Caller(Link):
    """A Link that also hears a daemon that turns it away and hangs up before it could greet."""

    def send(self, data):
        try:
            super().send(data)
        except BrokenPipeError:
            self.receive()
            raise

    def receive(self):
        kind, body = super().receive()
        if kind == ERROR:
            raise Refused(body)
        return kind, body


@contextlib.contextmanager
def linked(outcome, name, path):
    """A connection; where there is none, what was to be done with it is left out, and the outcome says so."""
    link = None
    with outcome.part(name):
        link = Caller(path)
    try:
        yield link
    finally:
        if link:
            with contextlib.suppress(ConnectionError):
                link.close()


def images(home, **keys):
    return make_dataset(home / "images", **{"per_class": 6, "classes": 2, "min_side": 24, "max_side": 48, **keys})


def fill(home, broken=False):
    """The files that the scenarios share."""
    images(home)
    make_dataset(home / "tars", per_class=6, classes=2, min_side=24, max_side=48, tars=True, per_shard=5)
    make_dataset(home / "large", per_class=2, classes=2, min_side=1000, max_side=1100)
    shutil.copytree(home / "images", home / "broken")
    bad = sorted((home / "broken").rglob("*.[jJ]*"))
    bad[3].write_bytes(bad[3].read_bytes()[:200])
    bad[7].write_bytes(b"no image")
    (home / "png").mkdir()
    for i in range(6):
        (home / "png" / f"{i}.png").write_bytes(png(20 + i, 24))
    files = sorted(p.relative_to(home / "images") for p in (home / "images").rglob("*.[jJ]*"))
    (home / "m.csv").write_text("path,label\n" + "".join(f"{p},{i % 3}\n" for i, p in enumerate(files)))
    (home / "classes.txt").write_text("red\ngreen\nblue\n")
    with tarfile.open(home / "json.tar", "w") as tar:
        for i, path in enumerate(files):
            tar.add(home / "images" / path, f"k{i:02}.jpg")
            member = home / "member.json"
            member.write_text(json.dumps({"a": {"x": [i, -i]}, "c": i % 3}))
            tar.add(member, f"k{i:02}.json")
    npy(home / "some.npy", "<i8", struct.pack("<8q", 7, 3, 3, 0, 9, 1, 10, 2))
    npy(home / "weights.npy", "<f8", struct.pack(f"<{len(files)}d", *(1 + i % 4 for i in range(len(files)))))


def npy(path, kind, data):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({len(data) // 8},), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + data)


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes((x * y + c * 40) % 256 for x in range(width) for c in range(3)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Scenario:
    """One stream of `keys`, `batches` of it. Words in capitals in texts stand for the folder of fill()."""
    options, config, environment = ("--threads", "2", "--http", "off", "--recorder", "off"), None, {}
    keys, batches = {}, 4

    def __init__(self, name, files, **changes):
        self.name, self.files = name, files
        for key, value in changes.items():
            assert hasattr(type(self), key), key
            setattr(self, key, value)

    def text(self, value):
        """`value` with the folder's name put in."""
        return json.loads(json.dumps(value).replace("FILES", str(self.files)))

    def reset(self, home):
        """Before each piece of work: what must be made anew goes."""

    def definition(self):
        return {**SIZE, **self.text(self.keys)}

    def act(self, daemon, outcome):
        with linked(outcome, "stream", daemon.socket) as link:
            if link:
                outcome.take("stream", link.open(**self.definition()), self.batches)


class StartStop(Scenario):
    def act(self, daemon, outcome):
        with linked(outcome, "link", daemon.socket) as link:
            if link:
                with outcome.part("link"):
                    outcome.said["clients"] = json.loads(link.query(harness.STATUS))["streams"]


class Fresh(Scenario):
    """Indexes and checkpoints are made each time."""

    def reset(self, home):
        shutil.rmtree(home / "cache", ignore_errors=True)
        for path in self.files.rglob("*.idx"):
            path.unlink()
        for path in self.files.rglob("*.ckpt"):
            path.unlink()


class Several(Scenario):
    """Streams of one connection, read by turns."""
    many = ({}, {})

    def act(self, daemon, outcome):
        with linked(outcome, "link", daemon.socket) as link:
            if not link:
                return
            streams = [link.open(**{**self.definition(), **self.text(keys)}) for keys in self.many]
            for _ in range(self.batches):
                for i, stream in enumerate(streams):
                    if f"stream {i}" not in outcome.errors:
                        outcome.take(f"stream {i}", stream, 1)


class Group(Scenario):
    """Connections that read together."""
    many = ({}, {})

    def act(self, daemon, outcome):
        with contextlib.ExitStack() as stack:
            links = [stack.enter_context(linked(outcome, f"trainer {i}", daemon.socket)) for i in range(len(self.many))]
            if not all(links):  # the others would wait for it
                return self.left(outcome)
            streams = [link.open(**{**self.definition(), **self.text(keys)}) for link, keys in zip(links, self.many)]
            for i, stream in enumerate(streams):  # the first would wait for one that was refused
                with outcome.part(f"trainer {i}"):
                    stream.opened()
            for _ in range(self.batches):
                for i, stream in enumerate(streams):
                    if outcome.errors:  # whoever is left may wait for who has gone
                        return self.left(outcome)
                    outcome.take(f"trainer {i}", stream, 1)

    def left(self, outcome):
        said = next(iter(outcome.errors.values()))
        for i in range(len(self.many)):
            outcome.rows.setdefault(f"trainer {i}", [])
            outcome.errors.setdefault(f"trainer {i}", said)


class Late(Scenario):
    """A second trainer joins when the first has had two batches."""

    def act(self, daemon, outcome):
        with linked(outcome, "first", daemon.socket) as one, linked(outcome, "late", daemon.socket) as two:
            if not one or not two:
                return outcome.errors.update({n: next(iter(outcome.errors.values())) for n in ("first", "late")})
            keys = {**self.definition(), "group": "g"}
            first = one.open(**keys)
            outcome.take("first", first, 2)
            late = two.open(**keys)
            outcome.rows["late"] = []
            with outcome.part("late"):
                late.opened()
            for _ in range(2):
                for name, stream in ("first", first), ("late", late):
                    if outcome.errors:
                        return outcome.errors.update({n: next(iter(outcome.errors.values())) for n in ("first", "late")})
                    outcome.take(name, stream, 1)


class Names(Scenario):
    """Named streams from a configuration that is read again."""
    config = """
streams:
  one:
    source: FILES/images
    batch_size: 4
    image_size: 16
    seed: 3
  two:
    source: FILES/tars/shard-{000000..000001}.tar
    batch_size: 4
    transforms:
      - RandomResizedCrop: {size: 16}
      - RandomHorizontalFlip
"""

    def act(self, daemon, outcome):
        daemon.process.send_signal(signal.SIGHUP)
        for name in "one", "two":
            with linked(outcome, name, daemon.socket) as link:
                if link:
                    outcome.take(name, link.open(stream=name), 3)


class Http(Scenario):
    """Metrics, the page, a contact sheet."""
    options = ("--threads", "2", "--recorder", "off")

    def answer(self, daemon, path):
        """(status, body)."""
        connection = http.client.HTTPConnection("localhost", timeout=harness.LIMIT)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(harness.LIMIT)
        with contextlib.closing(connection):
            connection.sock.connect(str(Path(daemon.socket).parent / "http.sock"))
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def ask(self, daemon, outcome, path):
        with outcome.part(path):
            for _ in range(30):
                status, body = self.answer(daemon, path)
                if status != 503:
                    break
                time.sleep(0.1)  # "ask again in a second"
            if status == 200 or path.startswith("/sheet") and status == 404:  # which batch is there is chance
                outcome.said[path] = zlib.crc32(body) if path == "/" else "answered"
            else:
                outcome.errors[path] = f"status {status}: {body.decode(errors='replace')}"

    def act(self, daemon, outcome):
        with linked(outcome, "stream", daemon.socket) as link:
            if link:
                stream = link.open(**self.definition())
                outcome.take("stream", stream, 2)
                if not outcome.errors:
                    self.ask(daemon, outcome, "/sheet?stream=0")
        for path in "/metrics", "/":
            self.ask(daemon, outcome, path)


class Library(Scenario):
    """Trainers that are processes, with the library: descriptors, leases and ends as they are for users."""

    def act(self, daemon, outcome):
        run = subprocess.run([harness.tool("dump_batches"), f"socket={daemon.socket}", "private=0", *(f"{k}={v}" for k, v in self.definition().items()),
                              f"batches={self.batches}"], capture_output=True, text=True, timeout=harness.LIMIT * 4)
        lines = run.stdout.splitlines()
        outcome.rows["stream"] = [(0, 0, 0, 0, line) for line in lines if line[:1].isdigit()]
        if run.returncode == 1 and lines and lines[-1].startswith("error "):
            outcome.errors["stream"] = lines[-1]
        elif run.returncode != 0:
            raise AssertionError(f"a trainer ended with {run.returncode}: {lines[-1:]} {run.stderr}")


class Again(Scenario):
    """Whoever comes back goes on where it was."""

    def act(self, daemon, outcome):
        state = {}
        for name in "before", "after":
            with linked(outcome, name, daemon.socket) as link:
                if not link or outcome.errors:
                    outcome.errors.setdefault("after", next(iter(outcome.errors.values()), "(hung up)"))
                    return
                stream = link.open(**self.definition(), **state)
                outcome.rows[name] = []
                with outcome.part(name):
                    batch = None
                    for _ in range(2):
                        batch = stream.next()
                        outcome.rows[name] += [(batch.epoch, *row) for row in stream.rows(batch)]
                        stream.release(batch)
                    state = {"state": stream.state(batch), "reconnect": True}


class Drain(Scenario):
    """Whoever reads while the daemon is asked to end: each stop does it (torture.Session.stop)."""
    drained = True


def all_of(files):
    """Every scenario, by name."""
    source = {"source": "FILES/images"}
    tars = {"source": "FILES/tars/shard-{000000..000002}.tar", "labels": "cls"}
    base = ("--threads", "2", "--http", "off", "--recorder", "off")
    heavy = [{"RandomResizedCrop": {"size": 16}}, "RandomHorizontalFlip", {"RandAugment": {"num_ops": 2, "magnitude": 9}},
             {"ColorJitter": {"brightness": 0.4}}, {"RandomErasing": {"p": 0.5}}]
    split = [{"group": "w", "share": "split", "rank": r, "world_size": 2} for r in range(2)]
    made = [
        StartStop("start", files, options=("--threads", "2")),
        Scenario("folder", files, keys=source),
        Fresh("folder_fresh", files, keys=source),
        Scenario("tars", files, keys=tars),
        Fresh("tars_fresh", files, keys=tars),
        Scenario("pread", files, keys=tars, options=(*base, "--reader", "pread")),
        Scenario("direct", files, keys=tars, options=(*base, "--io", "direct")),
        Scenario("direct_pread", files, keys=source, options=(*base, "--io", "direct", "--reader", "pread")),
        Scenario("cache", files, keys={**source, "epochs": 2}, batches=6, options=(*base, "--cache", "on")),
        Scenario("unshuffled", files, keys={**tars, "shuffle": False}),
        Several("streams", files, many=(source, tars, {**source, "seed": 4, "dtype": "float16"})),
        Group("all", files, keys={**source, "group": "g", "wait_for": 2}),
        Group("split", files, keys=source, many=split, batches=3),
        Late("late", files, keys=source),
        Scenario("evaluation", files, keys={**source, "train": False, "epochs": 1}, batches=3),
        Scenario("manifest", files, keys={**source, "labels": {"manifest": "FILES/m.csv"}}),
        Scenario("json", files, keys={"source": "FILES/json.tar", "labels": {"json": "a.x", "type": "float"}}),
        Scenario("weights", files, keys={**source, "weights": "FILES/weights.npy", "epoch_length": 16}),
        Scenario("balanced", files, keys={**source, "weights": "balanced"}),
        Scenario("mix", files, keys={"labels": "none", "sources": [{"source": "FILES/images", "weight": 1}, {"source": "FILES/tars/shard-000000.tar", "weight": 2}]}),
        Scenario("indices", files, keys={**source, "indices": "FILES/some.npy", "repeats": 2}),
        Scenario("transforms", files, keys={**source, "image_size": 16, "transforms": heavy, "dtype": "float32", "layout": "NCHW", "views": 2}),
        Names("names", files),
        Http("http", files, keys=source),
        Scenario("recorder", files, keys=source, options=("--threads", "2", "--http", "off")),
        Scenario("broken", files, keys={"source": "FILES/broken", "max_broken": 1, "epochs": 1}, batches=3),
        Scenario("broken_marked", files, keys={"source": "FILES/broken", "train": False, "epochs": 1, "max_broken": 1}, batches=3),
        Scenario("large", files, keys={"source": "FILES/large", "batch_size": 2}, batches=2),
        Scenario("png", files, keys={"source": "FILES/png", "batch_size": 2}, batches=3),
        Drain("drain", files, keys=source),
        Library("library", files, keys={"source": "FILES/images", "seed": 1}),
        Again("again", files, keys=source),
    ]
    for scenario in made:
        if scenario.config:
            scenario.config = scenario.config.replace("FILES", str(files))
    return {s.name: s for s in made}
