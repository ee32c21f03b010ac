"""What the HTTP port costs: how long a scrape takes, and what 1,000 slow connections change for a trainer.

    scrape.py [--images FOLDER] [--rounds N] [--seconds S] [--connections N] [--streams N]

A daemon with a trainer that takes batches as fast as they come; its latency is the time from giving a batch back to having the next. Rounds with and
without slow connections take turns, so that what else the machine does falls on both; slow ones send a byte a second of a request that never ends,
and come again ten seconds after they were thrown out. Each round scrapes twenty times a second. It prints the medians over rounds: of the scrape's
time, and of p99 with slow connections as a multiple of p99 without in the round before. Wanted: a scrape under 5 ms, p99 changed by less than 5 %.

Run it on a quiet machine, with nothing else on it. Standard library only; PENSTOCK_BIN says where the programs are.
"""
import argparse
import contextlib
import http.client
import json
import math
import multiprocessing
import os
import resource
import socket
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import PHOTOGRAPHS, Daemon, Link, folder, make_dataset  # noqa: E402

OPEN = {"Accept": "application/openmetrics-text; version=1.0.0"}
SCRAPES_PER_S = 20
COME_AGAIN_S = 10


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


def read(path, images, batch_size, image_size, begin, seconds, out):
    """A trainer: latencies of the batches in the window that `begin` opens."""
    with Link(path) as link:
        stream = link.open(source=images, batch_size=batch_size, image_size=image_size)
        stream.release(stream.next())
        while True:
            start = begin.recv()
            if start is None:
                return
            latencies, end = [], time.monotonic() + seconds
            while (now := time.perf_counter()) and time.monotonic() < end:
                batch = stream.next()
                latencies.append(time.perf_counter() - now)
                stream.release(batch)
            out.send(latencies)


def harass(port, count, go, over):
    """Slow connections while `go` is set."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    connections = {}  # number -> socket
    again = {}  # number -> when
    while not over.is_set():
        if not go.is_set():
            for connection in connections.values():
                connection.close()
            connections, again = {}, {}
            go.wait(0.2)
            continue
        now = time.monotonic()
        for number in range(count):
            connection = connections.get(number)
            try:
                if connection:
                    connection.send(b"y")
                elif again.get(number, 0) <= now:
                    connections[number] = connection = socket.create_connection(("127.0.0.1", port), timeout=5)
                    connection.setblocking(False)
                    connection.send(b"GET / HTTP/1.1\r\nX: ")
            except BlockingIOError:
                pass
            except OSError:
                if number in connections:
                    connections.pop(number).close()
                again[number] = now + COME_AGAIN_S
        time.sleep(max(0.0, now + 1 - time.monotonic()))


def scrape(port, times):
    begin = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics", headers=OPEN)
        size = len(connection.getresponse().read())
        times.append(time.perf_counter() - begin)
        return size
    finally:
        connection.close()


def scrape_for(port, seconds):
    """Times of scrapes, how many failed, and the size of the last."""
    times, failed, size, end = [], 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            size = scrape(port, times)
        except (OSError, http.client.HTTPException):
            failed += 1
        time.sleep(1 / SCRAPES_PER_S)
    return times, failed, size


def more_streams(links, daemon, images, count):
    """Streams that are open and read by nobody: more to say in metrics."""
    for number in range(count):
        if number % 8 == 0:
            links.append(Link(daemon.socket))
        links[-1].open(source=images, batch_size=4, image_size=32, seed=number).opened()


def measure(options, daemon, images, links):
    port = int(daemon.status()["http"].rstrip("/").rsplit(":", 1)[1])
    more_streams(links, daemon, images, options.streams - 1)
    context = multiprocessing.get_context("fork")
    begin, begin_there = context.Pipe()
    latencies, out = context.Pipe(False)
    go, over = context.Event(), context.Event()
    trainer = context.Process(target=read, args=(daemon.socket, images, 64, 224, begin_there, options.seconds, out))
    slow = context.Process(target=harass, args=(port, options.connections, go, over))
    trainer.start()
    slow.start()
    rounds = []
    try:
        for number in range(2 * options.rounds):
            harassed = number % 2 == 1
            if harassed:
                go.set()
                time.sleep(3)  # they are all there
            begin.send(True)
            times, failed, size = scrape_for(port, options.seconds)
            taken = latencies.recv()
            go.clear()
            time.sleep(1)
            rounds.append((taken, times, failed, size))
            print(f"{'slow' if harassed else 'calm'}: {len(taken)} batches, p50 {1e3 * percentile(taken, .5):.2f} ms, "
                  f"p99 {1e3 * percentile(taken, .99):.2f} ms; {len(times)} scrapes of {size} bytes, "
                  f"median {1e3 * statistics.median(times or [math.nan]):.2f} ms, {failed} failed", file=sys.stderr)
    finally:
        over.set()
        with contextlib.suppress(OSError):
            begin.send(None)
        for process in (trainer, slow):
            process.join(10)
            process.kill()
    return rounds


def report(options, rounds):
    calm, slow = rounds[::2], rounds[1::2]
    p99 = [[percentile(r[0], .99) for r in side] for side in (calm, slow)]
    return {
        "rounds": options.rounds, "seconds": options.seconds, "connections": options.connections, "streams": options.streams,
        "scrape_ms": round(1e3 * statistics.median(t for r in calm for t in r[1]), 3),
        "scrape_p99_ms": round(1e3 * percentile([t for r in calm for t in r[1]], .99), 3),
        "scrape_slow_ms": round(1e3 * statistics.median([t for r in slow for t in r[1]] or [math.nan]), 3),
        "scrapes_failed_slow": sum(r[2] for r in slow), "bytes": calm[-1][3],
        "batch_p99_ms": round(1e3 * statistics.median(p99[0]), 3), "batch_p99_slow_ms": round(1e3 * statistics.median(p99[1]), 3),
        "batch_p99_ratio": round(statistics.median(b / a for a, b in zip(*p99)), 4),
        "images_ratio": round(statistics.median(len(b[0]) / len(a[0]) for a, b in zip(calm, slow)), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--images", type=Path, help="a dataset (default: the tests' photographs, else made images)")
    parser.add_argument("--rounds", type=int, default=7, help="of each kind (default: 7)")
    parser.add_argument("--seconds", type=float, default=10, help="of a round (default: 10)")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=1, help="open streams, of which one is read (default: 1)")
    options = parser.parse_args()
    with folder() as home:
        images = options.images or (PHOTOGRAPHS if any(PHOTOGRAPHS.glob("*")) else make_dataset(home / "images", per_class=200, min_side=300, max_side=500))
        links = []
        with Daemon(home, "--http", "0") as daemon:
            rounds = measure(options, daemon, images, links)
            for link in links:
                link.close()
        print(json.dumps(report(options, rounds), indent=2))


if __name__ == "__main__":
    main()
