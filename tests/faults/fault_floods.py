"""Clients that flood, hold everything, release what they do not hold, or send messages out of order, beside two trainers of
the same group and one of a stream of its own: an error that names the offence, the connection closed if the protocol was
broken, and no other client affected."""
import contextlib
import errno
import json
import struct
import time

from faults import SLOW, TINY, FaultTrainer, killed_after, say, seeded, tiny_dataset, undisturbed, watched
from harness import (ANSWER, BATCH, CLOSE, END, ERROR, OPENED, QUERY, RELEASE, WELCOME, Raw, folder, hello, message, open_stream, release,
                     run_tests, wait_until)

MANY = 3000 if SLOW == 1 else 300


class Offender(Raw):
    """The client gets the error that the protocol lays down for its offence."""

    def flood(self, datagrams):
        """Sends without reading. Returns how many were sent before the daemon closed the connection."""
        self.socket.settimeout(5 * SLOW)
        sent = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for datagram in datagrams:
                self.send(datagram)
                sent += 1
        return sent

    def refused(self):
        """(code, sentence) of the ERROR that comes; then the connection is closed."""
        body = self.until(ERROR)
        assert self.closed()
        return struct.unpack_from("<i", body)[0], body[8:].decode()

    def open(self, definition, number=1):
        self.send(open_stream(json.dumps({**definition, "source": str(definition["source"])}), number, 100 + number))

    def leases(self, count):
        """(extent, slot, serial) of the batches that come."""
        return [struct.unpack_from("<IIQ", self.until(BATCH)) for _ in range(count)]


@contextlib.contextmanager
def offender(daemon, **keys):
    client = Offender(daemon.socket, **keys)
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def company():
    """Trainers that go on meanwhile; each offence must find them going, and leave them exactly right."""
    with folder() as home:
        tiny_dataset(home)
        with watched(home) as (daemon, watch):
            group = {"source": home / "images", **TINY, "group": "g", "wait_for": 2}
            alone = {"source": home / "images", **TINY, "seed": 3}
            steady = [FaultTrainer(home, daemon.socket, d, batches=1, linger=1, sleep_us=300) for d in (group, group, alone)]
            with killed_after(steady):
                for one in steady:
                    one.wait_note("batch")
                yield daemon, watch, group
                for one in steady:
                    count = len(one.batches())
                    wait_until(lambda one=one, count=count: len(one.batches()) > count + 4, "the others to go on")
                    one.enough()
                rows = [one.finish() for one in steady]
            watch.back()
            for row, definition in zip(rows, (group, group, alone)):
                assert row == undisturbed(home, daemon.socket, definition, len(row)), "the others' rows are exactly right"
            say(f"the others were given {[len(row) for row in rows]} batches meanwhile")


def private(group):
    return {k: v for k, v in group.items() if k not in ("group", "wait_for")}


def query(kind, request, stream=0, argument=0):
    return message(QUERY, struct.pack("<IIQ", kind, 0, argument), request, stream)


# ---- floods ----

def test_questions_without_reading_the_answers():
    with company() as (daemon, watch, _group):
        with offender(daemon) as client:
            assert client.flood(query(1, 2 + i) for i in range(20 * MANY)) < 20 * MANY, "closed, since it does not read"
            assert client.closed()
            wait_until(lambda: watch.status()["clients"] == 4, "it to go")


def test_questions_that_are_read():
    """A client may ask as much as it likes while it reads."""
    with company() as (daemon, _watch, _group):
        with offender(daemon) as client:
            for i in range(MANY):
                client.send(query(1, 2 + i))
                client.until(ANSWER)


def test_opens_and_closes():
    with company() as (daemon, _watch, group):
        with offender(daemon) as client:
            for number in range(1, MANY // 3):
                client.open(private(group) if number % 2 else group, number)
                client.send(message(CLOSE, stream=number))
                if number % 16 == 0:  # it reads now and then
                    client.send(query(1, 10000 + number))
                    client.until(ANSWER)


def test_more_streams_than_are_allowed():
    with company() as (daemon, _watch, group):
        with offender(daemon) as client:
            for number in range(1, 25):
                client.open(private(group), number)
            codes = []
            while len(codes) < 8:
                kind, body = client.receive()
                assert kind is not None
                if kind == ERROR:
                    codes.append(struct.unpack_from("<i", body)[0])
                    assert "16 streams" in body[8:].decode()
            assert codes == [-errno.EBUSY] * 8, "the connection lives, the streams are refused"


def test_connections_that_say_nothing():
    with company() as (daemon, watch, _group):
        crowd = []
        while len(crowd) < 200:
            with contextlib.suppress(BlockingIOError):  # the listener's queue is full for a moment
                crowd.append(Raw(daemon.socket, greet=False))
        wait_until(lambda: watch.status()["clients"] >= 60, "the crowd")
        for one in crowd:
            one.close()


def test_noise():
    random = seeded("floods/noise")
    with company() as (daemon, _watch, _group):
        for _ in range(MANY // 10):
            with offender(daemon, greet=random.random() < 0.7) as client:
                client.flood(random.randbytes(random.choice([1, 15, 16, 24, 40, 4000, 65536])) for _ in range(5))
                assert client.closed()


# ---- leases ----

def member(client, group, count):
    """It joins the group of the others; returns the leases of its first batches."""
    client.open(group)
    client.until(OPENED)
    return client.leases(count)


def test_holds_everything():
    """Alone it harms only itself; in a group all wait for it, as `block` says, and a client that asks is told which trainer it is."""
    with company() as (daemon, watch, group):
        with offender(daemon) as client:
            member(client, private(group), 4)
            time.sleep(0.1)
            client.send(query(5, 5, stream=1))
            assert b"holds 4 of 4" in client.until(ANSWER)
        with offender(daemon) as client:
            member(client, group, 4)
            with offender(daemon) as other:
                other.open(group)
                other.until(OPENED)
                other.send(query(5, 5, stream=1))
                answer = other.until(ANSWER)
                assert b"holds 4 of 4" in answer and b"releases none" in answer, answer


def test_releases_twice():
    with company() as (daemon, _watch, group):
        for flood in (1, MANY):
            with offender(daemon) as client:
                lease = member(client, group, 2)[0]
                client.send(release(*lease))
                client.flood(release(*lease) for _ in range(flood))
                code, sentence = client.refused()
                assert code == -errno.EPROTO and "does not hold" in sentence, sentence


def test_releases_what_it_does_not_hold():
    random = seeded("floods/release")
    with company() as (daemon, _watch, group):
        for _ in range(MANY // 50):
            with offender(daemon) as client:
                extent, slot, serial = member(client, group, 1)[0]
                lie = random.choice([(extent, slot, serial + random.randint(1, 9)), (extent + random.randint(1, 1 << 31), slot, serial),
                                     (extent, (slot + 7) % (1 << 32), serial), (extent, slot, serial - 1 & (1 << 64) - 1)])
                client.send(release(*lie))
                code, sentence = client.refused()
                assert code == -errno.EPROTO and "does not hold" in sentence, sentence


# ---- order ----

def test_out_of_order():
    with company() as (daemon, _watch, group):
        text = json.dumps({**group, "source": str(group["source"])})
        before_hello = [open_stream(text), release(0, 0, 0), message(CLOSE, stream=1), query(1, 1), message(WELCOME, bytes(32)), message(BATCH, bytes(48))]
        for lie in before_hello:
            with offender(daemon, greet=False) as client:
                client.send(lie)
                assert client.refused()[0] == -errno.EPROTO
        for lies in ([hello()], [open_stream(text, 1, 5), open_stream(text, 1, 6)], [message(END, bytes(16))], [message(RELEASE, bytes(8))],
                     [message(OPENED, bytes(136))], [message(BATCH, bytes(48), stream=1)]):
            with offender(daemon) as client:
                for lie in lies:
                    client.send(lie)
                assert client.refused()[0] == -errno.EPROTO
        with offender(daemon) as client:  # what is spoken of may just have ended: passed over, or answered
            for datagram in (release(0, 0, 0, stream=9), message(CLOSE, stream=9), query(2, 9, stream=9)):
                client.send(datagram)
            assert struct.unpack_from("<i", client.until(ERROR))[0] == -errno.EINVAL
            client.open(group)  # released before it is opened: it cannot hold anything
            client.send(release(0, 0, 0))
            assert client.refused()[0] == -errno.EPROTO


if __name__ == "__main__":
    run_tests(globals())
