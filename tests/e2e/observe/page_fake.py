"""A daemon's HTTP port that says what a test wants it to say: the page as it was built, made-up status, made-up sheets."""
import contextlib
import json
import re
import struct
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

HOSTILE = '"><img src=x onerror="document.title=\'taken\'"><script>document.title="taken"</script>'
HURRIED = 8
HURRY = ("(() => { const now = performance.now.bind(performance), once = setTimeout, often = setInterval; performance.now = () => now() * %d; "
         "window.setTimeout = (f, ms) => once(f, ms / %d); window.setInterval = (f, ms) => often(f, ms / %d); })()" % ((HURRIED,) * 3))


def built_page(source):
    """(page, policy) out of the page.c that was built."""
    text = Path(source).read_text()
    array = text.partition("http_page_html[] = {")[2].partition("};")[0]
    html = bytes(int(byte, 16) for byte in re.findall(r"'\\x(..)'", array))
    return html, re.search(r'http_page_csp\[\] = "([^"]*)"', text).group(1)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(rows, words, side=48):
    """A contact sheet of gray and colored ramps, as daemon/http/sheet_png.c draws one."""
    columns = next(c for c in range(1, 100) if c * c >= rows)
    lines = -(-rows // columns)
    words = {**words, "rows": rows, "columns": columns, "width": side, "height": side}
    image = bytearray()
    for y in range(lines * side):
        image.append(0)
        for column in range(columns):
            row = y // side * columns + column
            for x in range(side):
                image += bytes(((x * 5 + row * 40) % 256, (y % side * 5 + row * 90) % 256, (row * 37) % 256)) if row < rows else b"\x80\x80\x80"
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", columns * side, lines * side, 8, 2, 0, 0, 0))
            + chunk(b"iTXt", b"penstock\0\0\0\0\0" + json.dumps(words).encode()) + chunk(b"IDAT", zlib.compress(bytes(image))) + chunk(b"IEND", b""))


def trainer(pid, **more):
    return {"pid": pid, "held": 1, "given": 400, "epoch": 3, "batch": 117, "blocks": False, "held_s": 0, "waits": 0.02, "resident_bytes": 3 << 30,
            "gpu_bytes": 11 << 30, "cpu": 0.84, "command": f"python3 train.py --epochs 90 --seed {pid}", **more}


def stream(name="imagenet train", trainers=None, **more):
    return {"name": name, "source": "/data/imagenet/train-{000000..001023}.tar", "group": "job 8812", "batch_size": 256, "image_size": 224,
            "decode": "exact", "interpolation": "bilinear", "train": True, "shuffle": True, "seed": 0, "share": "all", "rank": 0, "world_size": 1,
            "wait_for": 1, "laggard": "block", "state": "serving", "samples": 1281167, "epoch": 3, "batch": 117, "batches": 5004, "slots": 8,
            "slots_free": 0, "slots_filling": 2, "ready": 4, "leased": 2, "slot_bytes": 38600000, "locked": True, "huge_pages": True,
            "images": 3850000, "rate": 2210.4, "fallbacks": {"progressive": 12}, "checkpoints": {"used": 3700000, "made": 1281100, "dropped": 0},
            "broken": {"truncated": 2}, "notice": "", "verdict": "trainer-bound, 97 %: complete batches wait for the trainer",
            "bottleneck": {"kind": "trainer", "share": 0.97, "trainer_wait": 0.02, "slots_full": 0.97, "workers_idle": 0.61, "permit_wait": 0, "cpu_busy": 0.37,
                           "cpu_stolen": 0.01, "read_busy": 0.2, "buffers_full": 0, "read_bytes_per_s": 98e6, "read_bytes_per_s_best": 220e6,
                           "reads_under_way": 12.5, "more_cpus": None, "pid": None},
            "waits_ms": {"p50": 0.4, "p99": 12.5}, "trainers": [trainer(4121), trainer(4122)] if trainers is None else trainers, **more}


def status(streams=None, **more):
    return {"version": "0.1.0", "pid": 4100, "uptime_s": 5000.0, "socket": "/run/user/1000/penstock/s.sock", "config": "/etc/penstock.yaml",
            "draining": False, "threads": 14, "cpus": 16, "reader": "io_uring, registered buffers", "io": "direct",
            "cache": {"mode": "auto", "hits": 900, "misses": 100, "shared": 0, "samples": 1200, "bytes": 150 << 20, "shrinks": 0},
            "remote": {"requests": 9120, "bytes": 1200 << 20, "connections": 38, "first_byte_p50_s": 0.012, "first_byte_p99_s": 0.9, "retries": 12,
                       "hedges": 3, "waiting": "", "hit_bytes": 700 << 20, "miss_bytes": 1200 << 20,
                       "cache": {"size": 2 << 30, "used": 1 << 30}},
            "checkpoints": True, "read_bytes": 10 << 40, "reads_in_flight": 20, "clients": 2, "images": 3850000, "batches": 15039,
            "stages": {"read": 120.0, "decode": 20000.0, "pixel": 9000.0, "serve": 14.0}, "resident_bytes": 1900 << 20,
            "http": "http://127.0.0.1:9470/", "recorder": {"path": "/home/u/.local/state/penstock/record-4100", "pid": 4101, "dropped": 0},
            "machine": {"available": 90 << 30, "total": 128 << 30, "swap_free": 0, "oom_kills": 0, "disk_free": 800 << 30,
                        "cgroup": {"path": "/user.slice/job-8812", "used": 50 << 30, "limit": 64 << 30, "oom_kills": 0},
                        "pressure": {"cpu_some": 12.5, "memory_some": 0.0, "memory_full": 0.0, "io_some": 3.1, "io_full": 0.4}},
            "gpus": [{"device": 0, "name": "NVIDIA H100 80GB HBM3", "used": 61 << 30, "total": 80 << 30, "busy": 0.93}],
            "memory": {"budget": 4 << 30, "reserved": 3200 << 20,
                       "lines": [{"name": "process", "bytes": 96 << 20}, {"name": "workers", "bytes": 300 << 20}, {"name": "index pages", "bytes": 64 << 20},
                                 {"name": "read buffers", "bytes": 512 << 20}, {"name": "large files", "bytes": 128 << 20},
                                 {"name": "large images", "bytes": 256 << 20}, {"name": "stream imagenet train (8 slots)", "bytes": 1844 << 20}]},
            "streams": [stream()] if streams is None else streams, "notices": [],
            "verdict": "trainer-bound, 97 %: complete batches wait for the trainer", "remedy": "", **more}


class Fake:
    """Serves on a free port of 127.0.0.1. `status` is what it says, or a function that makes it of the fake's clock; `code` what it is
    answered with. That clock goes `hurry` times as fast as ours, and so does that of a page with the script HURRY."""

    def __init__(self, page, policy, status, sheet=None, hurry=HURRIED):
        self.page, self.policy, self.status, self.sheet, self.code, self.hurry = page, policy, status, sheet, 200, hurry
        self.begin, self.asked = time.monotonic(), []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                fake.answer(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def clock(self):
        return (time.monotonic() - self.begin) * self.hurry

    def now(self):
        """The status with a clock that goes on and counters that grow."""
        clock = self.clock()
        said = self.status(clock) if callable(self.status) else self.status
        if isinstance(said, dict) and isinstance(said.get("uptime_s"), float):
            return {**said, "uptime_s": round(said["uptime_s"] + clock, 1)}
        return said

    def content(self, path, query):
        if path == "/":
            return 200, "text/html; charset=utf-8", self.page
        if path == "/status":
            said = self.now()
            return self.code, "application/json", said if isinstance(said, bytes) else json.dumps(said).encode()
        if path == "/sheet" and self.sheet:
            return self.sheet(int(query["stream"][0]))
        return 404, "text/plain", b"there is no such thing here\n"

    def answer(self, request):
        parts = urlsplit(request.path)
        self.asked.append(request.path)
        code, kind, body = self.content(parts.path, parse_qs(parts.query))
        request.send_response(code)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Content-Security-Policy", self.policy)
        request.send_header("X-Content-Type-Options", "nosniff")
        request.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a tab that was closed
            request.wfile.write(body)

    def close(self):
        if self.thread:
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()
        self.thread = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
