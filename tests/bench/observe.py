#!/usr/bin/env python3
"""What it costs to be watched: throughput with everything switched on, as a multiple of that with everything off.

    tests/bench/observe.py BUILD IMAGES [--rounds 15] [--seconds 4] [--json FILE]

On: the flight recorder, metrics scraped once a second, the page's /status asked for once a second, a contact sheet every five seconds,
and `penstock top` looking once a second. Off: `--recorder off --http off`, and nobody looks. Two daemons run side by side and are measured in turn
with the same stream (`penstock bench stream:all`), the one that is not measured having nothing to do; a round's ratio is that of neighbors, in
alternating order. Prints a table in Markdown: the ratio of rates, that of the CPU time per image (on: the daemon and its witness), and what the
parts took by the kernel's count of their threads' time."""
import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

TICKS = os.sysconf("SC_CLK_TCK")


class OverUnix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def get(path, url, accepted=(200,)):
    connection = OverUnix(path)
    try:
        connection.request("GET", url)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status in accepted, (url, answer.status, body[:200])
        return body
    finally:
        connection.close()


class Watchers:
    """Those who look at a daemon while it is measured."""

    def __init__(self, daemon):
        self.daemon, self.stop = daemon, threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self.look)
        self.top = subprocess.Popen([harness.tool("penstock"), "top", "--socket", daemon.socket, "--interval", "1", "--count", "100000"],
                                    stdout=subprocess.DEVNULL)

    def look(self):
        path = str(Path(self.daemon.socket).parent / "http.sock")
        try:
            turn = 0
            while not self.stop.is_set():
                get(path, "/metrics")
                get(path, "/status")
                if turn % 5 == 4:
                    get(path, "/sheet?stream=0", (200, 404))  # 404: bench has no stream just now
                turn += 1
                self.stop.wait(1)
        except Exception as problem:
            self.failure = problem

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        assert self.top.poll() is None, "penstock top ended by itself"
        self.top.kill()
        self.top.wait()
        if self.failure:
            raise self.failure


def thread_seconds(pid):
    """CPU seconds of each thread of a process, by name."""
    seconds = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        spent = [int(field) for field in fields.split()[11:13]]
        seconds[name] = seconds.get(name, 0) + sum(spent) / TICKS
    return seconds


class Side:
    """A daemon that is watched, or one that is not."""

    def __init__(self, home, images, *arguments):
        home.mkdir()
        self.daemon = harness.Daemon(home, *arguments, config=json.dumps({"streams": {"all": {"source": images, "batch_size": 64}}}))
        self.pids = [self.daemon.process.pid]
        recorder = self.daemon.status().get("recorder")
        if recorder:
            self.pids.append(recorder["pid"])

    def seconds(self):
        return [sum(thread_seconds(pid).values()) for pid in self.pids]

    def bench(self, seconds):
        before = self.seconds()
        done = subprocess.run([harness.tool("penstock"), "bench", "stream:all", "--seconds", str(seconds), "--json"], check=True, text=True,
                              env={**self.daemon.environment, "PENSTOCK_SOCKET": self.daemon.socket}, stdout=subprocess.PIPE)
        report = json.loads(done.stdout)
        witness = sum(self.seconds()[1:]) - sum(before[1:])
        # The witness' time covers the warm-up, too: an upper bound of its share.
        return report["images_per_s"], (report["cpu_s"] + witness) / report["images"]


def measure(scratch, options):
    off = Side(scratch / "off", options.images, "--recorder", "off", "--http", "off")
    on = Side(scratch / "on", options.images, "--recorder", str(scratch / "records"))
    ratios = {"rate": [], "cpu": []}
    for side in (on, off):  # makes indexes and entry points, warms the page cache
        side.bench(options.seconds)
    began, first = time.monotonic(), [thread_seconds(pid) for pid in on.pids]
    watched = 0
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        got = {}
        for side in (on, off) if number % 2 else (off, on):
            if side is on:
                begin = time.monotonic()
                with Watchers(on.daemon):
                    got[side] = side.bench(options.seconds)
                watched += time.monotonic() - begin
            else:
                got[side] = side.bench(options.seconds)
        ratios["rate"].append(got[on][0] / got[off][0])
        ratios["cpu"].append(got[on][1] / got[off][1])
    spent = time.monotonic() - began
    last = [thread_seconds(pid) for pid in on.pids]
    parts = {
        "witness, ms of CPU per second": 1000 * (sum(last[-1].values()) - sum(first[-1].values())) / spent,
        "HTTP thread, ms of CPU per second watched": 1000 * sum(v - first[0].get(n, 0) for n, v in last[0].items() if "http" in n) / watched,
    }
    for side in (on, off):
        assert side.daemon.stop() == 0, side.daemon.text()
    return ratios, parts


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--json", help="where to write all figures")
    return parser.parse_args()


def main():
    with harness.folder() as scratch:
        ratios, parts = measure(scratch, OPTIONS)
    rows = [("images/s, watched / not", ratios["rate"], ">= 0.99", lambda m: m >= 0.99),
            ("CPU per image, watched / not", ratios["cpu"], "<= 1.01", lambda m: m <= 1.01)]
    print(f"{OPTIONS.rounds} rounds, {OPTIONS.seconds:g} s a window.\n\n| what | median | least to most | floor | |\n|---|---|---|---|---|")
    for what, figures, floor, holds in rows:
        median = statistics.median(figures)
        print(f"| {what} | {median:.4f} | {min(figures):.4f} to {max(figures):.4f} | {floor} | {'holds' if holds(median) else 'MISSED'} |")
    for what, figure in parts.items():
        print(f"| {what} | {figure:.2f} | | | |")
    if OPTIONS.json:
        Path(OPTIONS.json).write_text(json.dumps({"ratios": ratios, "parts": parts}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    OPTIONS = parse()
    os.environ["PENSTOCK_BIN"] = str(Path(OPTIONS.build).resolve() / "bin")
    import harness  # looks at PENSTOCK_BIN
    main()
