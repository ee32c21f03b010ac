"""Every field of every message that a client sends, one at a time, with every edge value. The result is what PROTOCOL.md says:
an answer, an ERROR with the connection kept, or an ERROR with the connection closed. Two trainers of one group and one of a
stream of its own go on exactly."""
import contextlib
import errno
import json
import os
import struct

from fault_floods import Offender, company, private, query
import harness
from harness import (ANSWER, BATCH, CLOSE, ERROR, HELLO, MAGIC, OPEN, OPENED, QUERY, RELEASE, STOP, WELCOME, hello, message, next_datagram,
                     open_stream, release, run_tests)

TOP32, TOP64 = (1 << 32) - 1, (1 << 64) - 1
EDGES32 = (0, 1, 2, 15, 16, 17, 255, 256, 65535, 65536, 65537, (1 << 31) - 1, 1 << 31, TOP32 - 1, TOP32)
EDGES64 = (*EDGES32, 1 << 32, (1 << 32) + 1, (1 << 48), (1 << 48) + 1, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, TOP64 - 1, TOP64)
ANSWERED, REFUSED, CLOSED, SILENT = "answered", "refused", "closed", "nothing"
SYNC = 0x7fff0000  # the number of the question after each case


class Walker(Offender):
    """One connection of a case."""
    cases = 0

    def outcome(self, datagram, request=SYNC):
        """The result of a datagram, up to the message that echoes this request: ANSWERED, SILENT, (REFUSED, code), (CLOSED, code).
        Announcements that come meanwhile are skipped."""
        Walker.cases += 1
        self.send(datagram)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send(query(1, SYNC))
        seen, echoed, asked = SILENT, False, False
        while not (echoed and asked):
            kind, number, body = self.take()
            if kind is None:
                assert seen[0] == REFUSED, f"closed without a word: {datagram[:64]}"
                return (CLOSED, seen[1])
            if kind == ERROR:
                code, size = struct.unpack_from("<iI", body)
                sentence = body[8:].decode()
                assert -4095 <= code < 0 and size == len(body) - 8 and sentence.isprintable() and sentence, (code, sentence)
                seen = (REFUSED, code)
            elif kind in (ANSWER, OPENED, WELCOME) and number != SYNC:
                seen = ANSWERED
            asked |= kind == ANSWER and number == SYNC
            echoed |= number == request
        return seen

    def take(self):
        """(type, request, body); descriptors are closed."""
        try:
            data, ancillary, _, _ = next_datagram(self.socket)
        except (ConnectionResetError, BrokenPipeError):
            data, ancillary = b"", []
        for _, _, fds in ancillary:
            for fd in struct.unpack(f"{len(fds) // 4}i", fds):
                os.close(fd)
        kind, _, number, _ = struct.unpack_from("<IIII", data) if data else (None, 0, 0, 0)
        return kind, number, data[16:]


@contextlib.contextmanager
def walker(daemon, definition=None, greet=True):
    """Greeted and, given a definition, with stream 1 open and its first lease."""
    one = Walker(daemon.socket, greet=greet)
    try:
        if definition:
            one.open(private(definition))
            one.until(OPENED)
            one.lease = struct.unpack_from("<IIQ", one.until(BATCH))
        yield one
    finally:
        one.close()


def expect(daemon, definition, cases, greet=True):
    """Each (name, datagram, outcome): a separate connection if it will be closed, one for all the others."""
    lasting = contextlib.ExitStack()
    with lasting:
        shared = None
        for name, datagram, wanted in cases:
            if wanted[0] == CLOSED or not greet:
                with walker(daemon, definition, greet) as one:
                    got = one.outcome(datagram)
            else:
                shared = shared or lasting.enter_context(walker(daemon, definition, greet))
                # Other answers may overtake that to an OPEN, and a path's.
                late = datagram[:4] == struct.pack("<I", OPEN) or datagram[:4] == query(4, 1)[:4] and datagram[16:20] == query(4, 1)[16:20]
                got = shared.outcome(datagram, struct.unpack_from("<I", datagram, 8)[0] if late else SYNC)
            assert got == wanted, f"{name}: {got}, not {wanted}"


PROTO, INVALID = (CLOSED, -errno.EPROTO), (REFUSED, -errno.EINVAL)


def put(datagram, at, form, value):
    """The datagram with one field changed."""
    changed = bytearray(datagram)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


def valid(group):
    """A valid datagram of each kind, except STOP, which would be obeyed, for a client that has stream 1 and asks for stream 2."""
    text = json.dumps({**private(group), "source": str(group["source"])})
    return {HELLO: hello(), OPEN: open_stream(text, 2, 7), RELEASE: release(0, 0, 0), CLOSE: message(CLOSE, stream=9), QUERY: query(1, 5),
            STOP: message(STOP, request=5)}


# ---- the head ----

def test_lengths():
    """Every kind, cut, lengthened, and with a wrong length."""
    with company() as (daemon, _watch, group):
        cases = []
        for kind, datagram in valid(group).items():
            for size in (*range(1, 16), 16, 17, 20, 24, 28, 32, 36, 40, 48, 160, 65535, 65536):
                if size != len(datagram):
                    body = (datagram + bytes(65536))[:size]
                    cases.append((f"{kind} of {size} bytes", put(body, 4, "<I", size) if size >= 8 else body, PROTO))
            for size in EDGES32:
                if size != len(datagram):
                    cases.append((f"{kind} that says {size} bytes", put(datagram, 4, "<I", size), PROTO))
        expect(daemon, None, cases)


def test_more_than_a_message():
    with company() as (daemon, _watch, _group):
        for size in (65537, 100000, 200000):
            with walker(daemon) as one:
                assert one.outcome(message(QUERY, bytes(size - 16), 5)) == PROTO


def test_types():
    with company() as (daemon, _watch, group):
        kinds = [k for k in (*range(120), *EDGES32) if k not in (OPEN, RELEASE, CLOSE, QUERY, STOP)]
        expect(daemon, None, [(f"type {k}", message(k, bytes(16), 5), PROTO) for k in kinds])
        expect(daemon, None, [(f"first of type {k}", message(k, bytes(24), 5), PROTO) for k in range(1, 109)], greet=False)


def test_requests_and_streams():
    with company() as (daemon, _watch, group):
        text = json.dumps({**private(group), "source": str(group["source"])})
        cases = [(f"question {n}", query(1, n), ANSWERED if n else PROTO) for n in EDGES32]
        cases += [(f"question about stream {n}", query(2, 5, n), ANSWERED if n == 1 else INVALID) for n in EDGES32]
        cases += [(f"open, request {n}", open_stream(text, 1, n), PROTO) for n in EDGES32]
        cases += [("open of stream 0", open_stream(text, 0, 5), PROTO), ("open of what is open", open_stream(text, 1, 5), PROTO),
                  ("open with request 0", open_stream(text, 2, 0), PROTO)]
        cases += [(f"open of stream {n}", open_stream(text, n, 5), ANSWERED) for n in EDGES32[2:8]]
        cases += [(f"close of stream {n}", message(CLOSE, stream=n), SILENT) for n in (*EDGES32[2:], 0)]
        cases += [(f"close with request {n}", message(CLOSE, request=n, stream=99), SILENT) for n in EDGES32]
        cases.append(("stop with request 0", message(STOP), PROTO))
        expect(daemon, group, cases)


# ---- HELLO ----

def test_hello():
    with company() as (daemon, _watch, _group):
        cases = [(f"magic {m:#x}", hello(magic=m), PROTO) for m in (*EDGES64, MAGIC ^ 1, MAGIC ^ 1 << 63, MAGIC >> 8, MAGIC << 8 & TOP64)]
        for low in EDGES32:
            for high in EDGES32:
                fine = low <= 1 <= high
                cases.append((f"versions {low} to {high}", hello(low, high), ANSWERED if fine else PROTO))
        for bits in EDGES64:
            cases.append((f"features {bits:#x}", put(hello(), 32, "<Q", bits), ANSWERED))
        cases.append(("hello with request 0", put(hello(), 8, "<I", 0), PROTO))
        expect(daemon, None, cases, greet=False)
        known = 1 | 2 | 4  # enum wire_feature: groups, fields, buckets
        for bits in (*EDGES64, 1, 2, 4, 8, 1 << 63):  # none that one end does not know is promised
            with walker(daemon, greet=False) as one:
                one.send(put(hello(), 32, "<Q", bits))
                assert struct.unpack_from("<Q", one.until(WELCOME), 16) == (bits & known,), bits
        expect(daemon, None, [("a second hello", hello(), PROTO)])


# ---- RELEASE ----

def test_release():
    """Only a batch that is held can be released: one wrong field is an error."""
    with company() as (daemon, _watch, group):
        for at, form, edges in ((16, "<I", EDGES32), (20, "<I", EDGES32), (24, "<Q", EDGES64)):
            for value in edges:
                with walker(daemon, group) as one:
                    right = struct.unpack_from(form, release(*one.lease), at)[0]
                    got = one.outcome(put(release(*one.lease), at, form, value))
                    assert got == (SILENT if value == right else PROTO), (at, value, got)
        with walker(daemon, group) as one:
            assert one.outcome(release(*one.lease, stream=7)) == SILENT, "of no stream: passed over"
            assert one.outcome(release(*one.lease)) == SILENT
            assert one.outcome(release(*one.lease)) == PROTO, "twice"


# ---- QUERY ----

def test_query():
    with company() as (daemon, _watch, group):
        cases = [(f"kind {k}", query(k, 5, 1), ANSWERED if 1 <= k <= 6 else INVALID) for k in EDGES32]
        cases += [(f"kind {k} of no stream", query(k, 5), INVALID) for k in range(2, 7)]
        cases += [(f"path of sample {n}", query(4, 5, 1, n), ANSWERED if n < 60 else INVALID) for n in (*EDGES64, 59, 60, 61)]
        cases += [(f"reserved {n}", put(query(1, 5), 20, "<I", n), ANSWERED) for n in EDGES32]
        cases += [(f"argument {n} that is not looked at", query(1, 5, 0, n), ANSWERED) for n in EDGES64]
        expect(daemon, group, cases)


# ---- OPEN ----

def test_open_text_bytes():
    with company() as (daemon, _watch, group):
        datagram = valid(group)[OPEN]
        size = len(datagram) - 24
        cases = [(f"text_bytes {n}", put(datagram, 16, "<I", n), PROTO) for n in (*EDGES32, size - 1, size + 1, TOP32 - 23) if n != size]
        cases += [(f"reserved {n}", put(put(datagram, 20, "<I", n), 12, "<I", 3 + i), ANSWERED) for i, n in enumerate(EDGES32[:6])]
        expect(daemon, None, cases)


def opens(one, text, number=1):
    text = text.encode() if isinstance(text, str) else text
    return one.outcome(message(OPEN, struct.pack("<II", len(text), 0) + text, 5, number), 5)


def test_open_texts():
    """A definition that is not a mapping of known keys: a sentence with line and column, and the connection lives."""
    deep = 30000
    texts = {
        "empty": "", "a blank": " ", "null": "null", "a number": "1", "a list": "[]", "an empty mapping": "{}", "no end": '{"source":',
        "a zero byte": '{"source": "/a\0b"}', "a zero byte in front": "\0{}", "zeros": bytes(1000), "bad UTF-8": b'{"source": "/\xff\xfe"}',
        "half of a character": b'{"source": "/\xe2\x82"}', "a surrogate": b'{"source": "/\xed\xa0\x80"}', "overlong": b'{"source": "/\xc0\xaf"}',
        "beyond Unicode": b'{"source": "/\xf4\x90\x80\x80"}', "UTF-16": '{"source": "/a"}'.encode("utf-16"), "an escaped zero": '{"source": "/a\\u0000b"}',
        "control characters": '{"source": "/a\x01\x1b[31m"}', "a key twice": '{"source": "/a", "source": "/b"}', "an unknown key": '{"sorce": "/a"}',
        "an anchor": "{source: &a /x, group: *a}", "an anchor in itself": "&a [*a]", "aliases that multiply": "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nsource: *b\n",
        "a tag": '{"source": !!python/object "/a"}', "two documents": '{"source": "/a"}\n---\n{}', "deep lists": "[" * deep, "deep mappings": '{"a":' * (deep // 5),
        "deep and closed": "[" * deep + "]" * deep, "a long key": '{"' + "k" * 60000 + '": 1}', "a long source": '{"source": "/' + "s" * 60000 + '"}',
        "a long group": '{"source": "/a", "group": "' + "g" * 60000 + '"}', "the longest": '{"source": "/' + "s" * (65536 - 24 - 15) + '"}',
        "many keys": "{" + ",".join(f'"k{i}": 1' for i in range(5000)) + "}", "relative": '{"source": "a"}', "up and away": '{"source": "../../etc"}',
        "nobody's group": '{"source": "/a", "group": "\\n1/1/1"}', "a state of nothing": '{"source": "/a", "state": {}}',
        "a state of noise": '{"source": "/a", "state": {"version": 1e999, "fingerprint": "zz"}}', "a merge": "{<<: {source: /a}}",
    }
    with company() as (daemon, _watch, _group), walker(daemon) as one:
        for name, text in texts.items():
            got = opens(one, text)
            assert got[0] == REFUSED and got[1] in (-errno.EINVAL, -errno.ENOENT, -errno.ENAMETOOLONG), f"{name}: {got}"


NUMBERS = {"batch_size": (1, 65536), "image_size": (1, 4096), "views": (1, 16), "repeats": (1, 16), "prefetch": (2, 64), "seed": (0, TOP64),
           "epochs": (0, TOP64), "epoch_length": (1, 1 << 48), "wait_for": (1, 65536), "laggard_timeout_s": (1, 86400), "world_size": (1, 65536),
           "rank": (0, 65535)}
WORDS = ("dtype", "layout", "labels", "on_broken", "decode", "interpolation", "share", "laggard", "split", "indices", "weights", "stream")
FLAGS = ("train", "shuffle", "drop_last", "pin_memory", "reconnect")
NO_NUMBERS = ("-1", "1.5", "1e3", "1e999", "-0", "0x10", "18446744073709551616", "99999999999999999999999", "true", "null", '""', '"a"', "[]", "{}",
              "[1]", '"\\u0000"', "NaN", "~", ".inf", "1_000", "+1", "01")


def test_open_values():
    """Each key with a value of another kind, and just outside its range: -EINVAL that names the key."""
    with company() as (daemon, _watch, group), walker(daemon) as one:
        base = {**private(group), "source": str(group["source"])}

        def wrong(key, value):
            text = json.dumps({k: v for k, v in base.items() if k != key})[:-1] + f', "{key}": {value}}}'
            got = opens(one, text)
            assert got[0] == REFUSED and got[1] in (-errno.EINVAL, -errno.ENOENT), f"{key}: {value}: {got}"

        for key, (low, high) in NUMBERS.items():
            for value in (*NO_NUMBERS, low - 1, high + 1):
                if not (value in ("-0", "+1", "01") or (key == "image_size" and value in ("{}",))):
                    wrong(key, value)
        for key in WORDS:
            for value in ("1", "-1", "1.5", "true", "[]", "[1]", '"no such word"', '"\\u0000"', '"' + "w" * 5000 + '"'):
                wrong(key, value)
        for key in FLAGS:
            for value in ("1", "0", '"maybe"', "[]", "{}", "2", "null", '"\\u0000"'):
                wrong(key, value)
        for key in ("mean", "std"):
            for value in ("1", "[]", "[1]", "[1,1]", "[1,1,1,1]", '["a","b","c"]', "[1e999,1,1]", "{}", "[NaN,1,1]"):
                wrong(key, value)
        for value in ("-1", "-0.001", "1.001", "2", "1e999", "NaN", '"a"', "[]"):
            wrong("max_broken", value)
        for value in ("1", "[]", "{}", '""', '"a"', '{"version": 2}', '{"version": 1}', '{"version":1,"fingerprint":"0"}'):
            wrong("state", value)
        for value in ("1", "[]", "[{}]", "{}", '[{"source": "/a", "weight": 1}]', '[{"source": "/a", "weight": -1}, {"source": "/b", "weight": 1}]'):
            wrong("sources", value)
        for value in ("1", "[]", "{}", "[1]", '[{"NoSuch": {}}]', '[{"Resize": {"size": -1}}]', '[{"Resize": {"size": 99999999}}]', "[[]]"):
            wrong("transforms", value)
    harness.promise(f"{Walker.cases} messages with a field at an edge: each answered, refused or closed as PROTOCOL.md says")


if __name__ == "__main__":
    run_tests(globals())
