#!/usr/bin/env python3
"""A STAND-IN for an object store or web server that misbehaves on demand. For tests only.

    fault_server.py FOLDER [--port N] [--tls] [--slow SECONDS] [--busy N] [--disturb SEED:SECONDS]
                                              serves FOLDER on 127.0.0.1; prints "port N" and runs until its standard input ends;
                                              --tls uses cert.pem and key.pem of the folder; with --slow every answer to a GET comes
                                              that much later; with --busy every N-th GET is answered with 503 SlowDown; --disturb
                                              does to every request what the fault disturb:SEED with for=SECONDS does

It serves ranges, ETags and If-Match as a good server does. The query of a URL asks for a fault:

    ?fault=NAME[:ARGUMENT]     the first answers to this URL are wrong (all of them with times=0)
    &times=N                   how many answers; 1
    &body=N                    the fault happens after N bytes of the body

    status:CODE[:S3CODE]   an error with that status, and a body as S3 has it; region=R adds x-amz-bucket-region
    stall:SECONDS          says nothing for so long (before the headers, or after `body` bytes), then goes on
    close, reset           closes the connection (before an answer, or after `body` bytes)
    gone                   closes without reading
    ignore                 ignores the range: status 200 and the whole body
    wrongrange, norange    206 with another Content-Range; 206 without one
    front:N                206 with a range that begins N bytes before the one that was asked for
    lie                    a Content-Length that contradicts the Content-Range
    longer                 sends more than Content-Length says
    shorter                Content-Range of half of the range, and these bytes
    etag                   another ETag, and the bytes
    html                   status 200 and a web page
    headers                headers without end
    race:A:B               the first answer pauses for A seconds after `body` bytes, and for long after as many more; the second one waits
                           for B seconds before its body
    part                   status 206 and half of the body, also where no range was asked for
    chunked                the body in chunks, without a length, and a trailer
    interim                an answer with status 103 before the answer
    unframed               no length: the body ends with the connection
    hangup                 closes the connection after the answer, without a word about it
    drip:SECONDS           a byte of the body in each such time
    redirect:URL           302 to URL (decoded once); redirect:URL:CODE
    loop                   302 to the same URL
    need:HEADER:VALUE:STATUS:S3CODE   an error until a request has the header with this value
    echo:HEADER            403, and a body with the request's header of that name
    skew:SECONDS           403 RequestTimeTooSkewed, and a Date so far from now, until a request has x-test-time near it;
                           skew:SECONDS:STATUS:S3CODE is another refusal
    disturb:SEED           of all such requests 5 % get 503, 1 % stall (for=SECONDS), 1 % end short, 2 % are reset

/stats answers with the number of requests, and of connections, as text. Standard library only.
"""

import asyncio
import hashlib
import os
import random
import socket
import ssl
import struct
import sys
import time
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

REASONS = {200: "OK", 206: "Partial Content", 302: "Found", 404: "Not Found", 412: "Precondition Failed", 416: "Range Not Satisfiable"}
CHUNK = 1 << 18


class Ended(Exception):
    """The connection is to be closed."""


class Server:
    def __init__(self, folder, slow=0.0, busy=0, disturb=None):
        self.folder = Path(folder)
        self.slow, self.busy, self.gets, self.disturb = slow, busy, 0, disturb
        self.done = {}  # URL -> answers that were wrong
        self.random = {}
        self.requests = self.connections = self.open = self.most = 0
        self.files = {}
        self.uploads = {}

    def load(self, path):
        if path in self.uploads:
            data = self.uploads[path]
            return data, '"' + hashlib.md5(data).hexdigest() + '"'
        if path not in self.files:
            target = self.folder / path.lstrip("/")
            if ".." in path or not target.is_file():
                return None, ""
            data = target.read_bytes()
            self.files[path] = (data, '"' + hashlib.md5(data).hexdigest() + '"')
        return self.files[path]

    async def connected(self, reader, writer):
        self.connections += 1
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            while await self.one(reader, writer):
                pass
        except (Ended, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def one(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        body = b""
        if "content-length" in headers:
            body = await reader.readexactly(int(headers["content-length"]))
        self.requests += 1
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if self.disturb and not query and url.path != "/stats":
            query = {"fault": f"disturb:{self.disturb[0]}", "for": self.disturb[1]}
        path = unquote(url.path)
        fault = self.fault_of(target, query, headers)
        if path == "/stats":
            return await self.plain(writer, 200, f"{self.requests} {self.connections} {self.most}".encode())
        if method == "GET" and await self.overloaded(writer):
            return True
        if fault and fault[0] == "loop":
            return await self.plain(writer, 302, b"", {"Location": target})
        if fault and await self.before(fault, query, writer, headers):
            return True
        if method == "PUT":
            self.uploads[path] = body
            return await self.plain(writer, 200, b"", {"ETag": '"' + hashlib.md5(body).hexdigest() + '"'})
        if method == "POST":
            return await self.plain(writer, 200, b"<Posted>" + body + b"</Posted>")
        if method == "DELETE":
            self.uploads.pop(path, None)
            return await self.plain(writer, 200, b"")
        return await self.get(method, path, headers, fault, query, writer)

    async def overloaded(self, writer):
        """Whether a GET was answered as a busy store does."""
        self.gets += 1
        busy = self.busy and self.gets % self.busy == 0
        await asyncio.sleep(self.slow)
        if busy:
            await self.plain(writer, 503, b'<?xml version="1.0"?>\n<Error><Code>SlowDown</Code></Error>')
        return busy

    def fault_of(self, target, query, headers):
        fault = query.get("fault", "").split(":")
        if not fault[0]:
            return None
        if fault[0] == "need":
            return None if headers.get(fault[1].lower()) == fault[2] else fault
        if fault[0] == "skew":
            sent = int(headers.get("x-test-time", "0"))
            return None if abs(sent - time.time() - int(fault[1])) < 60 else fault
        if fault[0] == "disturb":
            draw = self.random.setdefault(fault[1], random.Random(int(fault[1]))).random()
            for share, name in ((0.05, ["status", "503", "SlowDown"]), (0.06, ["stall", query.get("for", "10")]), (0.07, ["short"]),
                                (0.09, ["reset"])):
                if draw < share:
                    return name
            return None
        times = int(query.get("times", "1"))
        if times and self.done.get(target, 0) >= times:
            return None
        self.done[target] = self.done.get(target, 0) + 1
        return fault + [str(self.done[target])] if fault[0] == "race" else fault

    async def plain(self, writer, status, body, more=None):
        lines = {"Date": formatdate(usegmt=True), "Content-Length": str(len(body)), **(more or {})}
        writer.write(f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\n".encode())
        writer.write("".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode() + b"\r\n" + body)
        await writer.drain()
        return True

    def reset(self, writer):
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Ended

    async def error(self, writer, status, code, more=None):
        body = f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>made up \x1b[31m</Message></Error>'.encode() if code else b""
        return await self.plain(writer, status, body, more)

    async def before(self, fault, query, writer, headers):
        """Faults instead of an answer. Whether one was sent."""
        name = fault[0]
        if name == "status":
            more = {"x-amz-bucket-region": query["region"]} if "region" in query else {}
            if "after" in query:
                more["Retry-After"] = query["after"]
            return await self.error(writer, int(fault[1]), fault[2] if len(fault) > 2 else "", more)
        if name == "need":
            more = {"x-amz-bucket-region": query["region"]} if "region" in query else {}
            return await self.error(writer, int(fault[3]), fault[4], more)
        if name == "echo":
            return await self.plain(writer, 403, f"<Error><Code>No</Code><Message>got {headers[fault[1]]}</Message></Error>".encode())
        if name == "skew":
            status, code = (int(fault[2]), fault[3]) if len(fault) > 2 else (403, "RequestTimeTooSkewed")
            return await self.error(writer, status, code, {"Date": formatdate(time.time() + int(fault[1]), usegmt=True)})
        if name == "redirect":
            code = int(fault[-1]) if fault[-1].isdigit() and len(fault) > 3 and len(fault[-1]) == 3 else 302
            location = ":".join(fault[1:-1] if code != 302 or fault[-1] == "302" else fault[1:])
            return await self.plain(writer, code, b"<html>moved</html>", {"Location": location})
        if "body" in query:
            return False
        if name == "stall":
            await asyncio.sleep(float(fault[1]))
        elif name == "close":
            raise Ended
        elif name == "reset":
            self.reset(writer)
        elif name == "html":
            return await self.plain(writer, 200, b"<html><body>Please log in</body></html>" * 4, {"Content-Type": "text/html; charset=utf-8"})
        elif name == "headers":
            writer.write(b"HTTP/1.1 206 Partial Content\r\n")
            while True:
                writer.write(b"X-More: " + b"a" * 500 + b"\r\n")
                await writer.drain()
        return False

    async def get(self, method, path, headers, fault, query, writer):
        data, etag = self.load(path)
        name = fault[0] if fault else ""
        if data is None:
            return await self.error(writer, 404, "NoSuchKey" if method == "GET" else "")
        if headers.get("if-match", etag) != etag:
            return await self.error(writer, 412, "PreconditionFailed")
        lines = {"Date": formatdate(usegmt=True), "ETag": '"another"' if name == "etag" else etag, "Accept-Ranges": "bytes",
                 "Last-Modified": formatdate(1e9, usegmt=True), "Content-Type": "application/octet-stream"}
        status, first, last = 200, 0, len(data) - 1
        if "range" in headers and name != "ignore" and method == "GET":
            one, _, two = headers["range"].split("=")[1].partition("-")
            first, last = int(one), min(int(two), len(data) - 1) if two else len(data) - 1
            if first >= len(data):
                return await self.plain(writer, 416, b"", {"Content-Range": f"bytes */{len(data)}"})
            status = 206
            if name == "shorter":
                last = first + (last - first) // 2
            if name == "front":
                first -= int(fault[1])
            shift = 1 if name == "wrongrange" else 0
            if name != "norange":
                lines["Content-Range"] = f"bytes {first + shift}-{last + shift}/{len(data) + shift}"
        if name == "part":
            status, last = 206, last // 2
            lines["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        body = memoryview(data)[first:last + 1]
        if name == "longer":
            body = bytes(body) + b"more than was told" * 10
        if name == "chunked":
            lines["Transfer-Encoding"] = "chunked"
        elif name != "unframed":
            lines["Content-Length"] = str(last - first + 1 + (7 if name == "lie" else 0))
        if name == "interim":
            writer.write(b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\nETag: \"early\"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} {REASONS[status]}\r\n".encode())
        writer.write("".join(f"{key}: {value}\r\n" for key, value in lines.items()).encode() + b"\r\n")
        if method != "HEAD":
            await self.send(writer, body, fault, query)
        await writer.drain()
        return name not in ("longer", "lie", "unframed", "hangup")

    async def send(self, writer, body, fault, query):
        name = fault[0] if fault else ""
        at = int(query["body"]) if "body" in query else len(body) // 2
        if name in ("stall", "close", "short", "reset") and ("body" in query or name == "short"):
            writer.write(body[:at])
            await writer.drain()
            if name == "stall":
                await asyncio.sleep(float(fault[1]))
            elif name == "reset":
                await asyncio.sleep(0.05)  # so that the bytes arrive before the reset
                self.reset(writer)
            else:
                raise Ended
            body = body[at:]
        if name == "race" and fault[3] == "1":
            for seconds in (float(fault[1]), 20):
                writer.write(body[:at])
                body = body[at:]
                await writer.drain()
                await asyncio.sleep(seconds)
            raise Ended
        if name == "race":
            await asyncio.sleep(float(fault[2]))
        if name == "drip":
            for i in range(len(body)):
                writer.write(body[i:i + 1])
                await writer.drain()
                await asyncio.sleep(float(fault[1]))
            return
        if name == "chunked":
            for i in range(0, len(body), 777):
                part = bytes(body[i:i + 777])
                writer.write(f"{len(part):X};x=y\r\n".encode() + part + b"\r\n")
            writer.write(b"0\r\nX-Trailer: z\r\n\r\n")
            return
        for i in range(0, len(body), CHUNK):
            writer.write(body[i:i + CHUNK])
            await writer.drain()


async def main():
    port = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0
    slow = float(sys.argv[sys.argv.index("--slow") + 1]) if "--slow" in sys.argv else 0.0
    busy = int(sys.argv[sys.argv.index("--busy") + 1]) if "--busy" in sys.argv else 0
    disturb = sys.argv[sys.argv.index("--disturb") + 1].split(":") if "--disturb" in sys.argv else None
    context = None
    if "--tls" in sys.argv:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(Path(sys.argv[1]) / "cert.pem", Path(sys.argv[1]) / "key.pem")
    server = await asyncio.start_server(Server(sys.argv[1], slow, busy, disturb).connected, "127.0.0.1", port, limit=1 << 20, backlog=512,
                                        ssl=context)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    os._exit(0)  # the test has ended; connections may be open


if __name__ == "__main__":
    asyncio.run(main())
