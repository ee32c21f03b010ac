"""Remote storage that holds a trainer up: the verdict names it, and the status, the metrics and the bench count what was requested.

The store is tests/remote/fault_server.py: every answer is late, every twentieth is a 503, and at last it is killed."""
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import openmetrics
from harness import LIMIT, ROOT, SLOW, Daemon, Skip, folder, make_dataset, run_tests, tool, wait_until
from http_server import OPEN, ask

SERVER = ROOT / "tests/remote/fault_server.py"
RETRIES = {"connect", "reset", "stall", "status", "slowdown", "answer", "refused", "tls"}
CONFIG = """entry_points: off
cache: off
http: 127.0.0.1:0
remote: {endpoint_url: "http://127.0.0.1:%d", anonymous: on, path_style: on, connections: 4, region: us-east-1}
"""
SOURCE = "s3://bucket/train.tar"


def needs_urls():
    said = subprocess.run([tool("penstock"), "--version"], capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    if "s3" not in said.split("urls:")[-1].split("\n")[0]:
        raise Skip("this build reads no URLs")


def bucket(home):
    """A folder with bucket/train.tar."""
    images = make_dataset(home / "images", per_class=16, min_side=48, max_side=96)
    (home / "store/bucket").mkdir(parents=True)
    with tarfile.open(home / "store/bucket/train.tar", "w") as tar:
        for number, path in enumerate(sorted(images.glob("*/*.jpg"))):
            for name, data in ((f"{number:04}.jpg", path.read_bytes()), (f"{number:04}.cls", b"%d" % (number % 3))):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return home / "store"


class Store:
    """The server, which keeps its port when it is started again."""

    def __init__(self, stack, root):
        self.root, self.port = root, 0
        stack.callback(self.kill)
        self.start()

    def start(self):
        self.process = subprocess.Popen([sys.executable, str(SERVER), str(self.root), "--port", str(self.port), "--slow", "0.3", "--busy", "20"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=LIMIT)


def trainer(stack, daemon):
    keys = {"socket": daemon.socket, "private": 0, "source": SOURCE, "epochs": 0, "batch_size": 8, "image_size": 32, "train": 1}
    process = subprocess.Popen([tool("dump_batches"), *(f"{k}={v}" for k, v in keys.items())], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=daemon.environment)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def says(daemon, pattern, seconds=40 * SLOW):
    """Waits until the stream's verdict is like this; the status."""
    end, said = time.monotonic() + seconds, []
    while time.monotonic() < end:
        status = daemon.status()
        verdict = status["verdict"]
        if not said or said[-1] != verdict:
            said.append(verdict)
        if re.fullmatch(pattern, verdict):
            print(f"     {verdict}: {status['remedy']}", flush=True)
            return status
        time.sleep(0.2)
    raise AssertionError(f"expected {pattern}, got {said}")


def check_numbers(daemon, status):
    """The status, the metrics and the words agree about what was requested."""
    remote, found = status["remote"], status["streams"][0]["bottleneck"]
    assert found["kind"] == "read" and found["connections"] > 0 and found["first_byte_p99_ms"] >= 250, found
    assert 0 < found["slowdowns"] < 0.5, found
    assert remote["done"] > 0 and remote["requests"] >= remote["done"] + remote["retries"] and remote["bytes"] > 0, remote
    assert remote["retried"].keys() <= RETRIES and remote["retried"]["slowdown"] > 0, remote
    assert remote["retries"] == sum(remote["retried"].values()), remote
    assert remote["connections_limit"] <= 4 and remote["waiting"] == "" and "cache" not in remote, remote
    # The metrics may be those of a moment before the status.
    end = time.monotonic() + LIMIT
    while True:
        text = ask(status["http"], **OPEN)[2].decode()
        values = openmetrics.values(openmetrics.read(text))
        sample = {re.sub(r"^penstock_remote_", "", name): value for name, value in
                  re.findall(r"^(penstock_remote_[\w]+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)}
        if float(sample['requests_total{outcome="done"}']) >= remote["done"]:
            break
        assert time.monotonic() < end, (sample, remote)
        time.sleep(0.2)
    assert values, text
    assert float(sample['retries_total{reason="slowdown"}']) >= remote["retried"]["slowdown"], sample
    assert float(sample["received_bytes_total"]) >= remote["bytes"] and float(sample["first_byte_seconds_count"]) > 0, sample
    people = subprocess.run([tool("penstock"), "status"], env={**daemon.environment, "PENSTOCK_SOCKET": daemon.socket},
                            capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    lines = " ".join(people.split())  # they are wrapped
    assert "S3-bound: " in lines and re.search(r" remote .* connections, first byte .* requests, .* tried again: slowdown ", lines), people
    top = subprocess.run([tool("penstock"), "top", "--plain", "--socket", daemon.socket], env=daemon.environment,
                         capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    assert re.search(r" remote .* requests/s, .* tried again", " ".join(top.split())), top


def test_slow_then_gone():
    needs_urls()
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(folder())
        store = Store(stack, bucket(home))
        daemon = stack.enter_context(Daemon(home, "--threads", 2, config=CONFIG % store.port))
        reader = trainer(stack, daemon)
        status = says(daemon, r"S3-bound: [1-4] connections?, first byte p99 \d+ m?s, \d+ % SlowDown")
        assert status["remedy"], status
        check_numbers(daemon, status)
        errors = status["remote"]["errors"]  # no index is stored beside the shard: 404
        store.kill()
        where = re.escape(f"http://127.0.0.1:{store.port}")
        status = says(daemon, rf"waiting for {where}.*: .+ for \d+ s")
        assert status["remote"]["waiting"] and "why the server does not answer" in status["remedy"], status
        assert reader.poll() is None
        store.start()
        given = status["streams"][0]["trainers"][0]["given"]
        wait_until(lambda: daemon.status()["streams"][0]["trainers"][0]["given"] > given, "batches after the server's return")
        assert reader.poll() is None and daemon.status()["remote"]["errors"] == errors
        reader.kill()
        reader.wait()


def test_gone_before_it_is_opened():
    needs_urls()
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(folder())
        store = Store(stack, bucket(home))
        store.kill()
        daemon = stack.enter_context(Daemon(home, config=CONFIG % store.port))
        reader = trainer(stack, daemon)
        says(daemon, rf"waiting for {re.escape(f'http://127.0.0.1:{store.port}')}.*: .+ for \d+ s")
        store.start()
        wait_until(lambda: any(t["given"] for s in daemon.status()["streams"] for t in s["trainers"]), "the first batches")
        reader.kill()
        reader.wait()


def test_end_while_it_is_opened():
    """SIGTERM, `penstock stop` and a trainer that gives up end the wait for a server that is gone, which timeout_s bounds by 300 s."""
    needs_urls()
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(folder())
        store = Store(stack, bucket(home))
        for end in ("while it is read", "SIGTERM", "stop", "leave"):
            with contextlib.ExitStack() as inner:
                daemon = inner.enter_context(Daemon(home, config=CONFIG % store.port))
                reader = trainer(inner, daemon)
                if end == "while it is read":
                    wait_until(lambda: daemon.status().get("remote", {}).get("requests", 0) > 1, "a request after the one for the size")
                    store.kill()
                says(daemon, rf"waiting for {re.escape(f'http://127.0.0.1:{store.port}')}.*: .+ for \d+ s")
                begun = time.monotonic()
                if end == "leave":
                    reader.kill()
                    wait_until(lambda: daemon.status()["remote"]["canceled"] > 0, "the end of the request")
                elif end == "stop":
                    subprocess.run([tool("penstock"), "stop"], env={**daemon.environment, "PENSTOCK_SOCKET": daemon.socket}, check=True,
                                   timeout=LIMIT, capture_output=True)
                else:
                    daemon.process.terminate()
                if end != "leave":
                    daemon.process.wait(timeout=LIMIT)
                took = time.monotonic() - begun
                assert took < 6 * SLOW, (end, took)


def test_bench():
    """What a run requested, in words and as JSON; nothing of it in a run on local files."""
    needs_urls()
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(folder())
        store = Store(stack, bucket(home))
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home / "state"), "AWS_REGION": "us-east-1",
                       "AWS_ENDPOINT_URL": f"http://127.0.0.1:{store.port}", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}

        def bench(source, *options):
            run = subprocess.run([tool("penstock"), "bench", source, "--batch-size", "4", "--image-size", "32", "--seconds", "1", *options],
                                 env=environment, capture_output=True, text=True, timeout=LIMIT)
            assert run.returncode == 0, run.stdout + run.stderr
            return run.stdout
        found = json.loads(bench(SOURCE, "--json"))["remote"]
        assert found["requests"] > 0 and found["bytes"] > 0 and found["first_byte_p99_s"] >= found["first_byte_p50_s"] > 0.2, found
        words = bench(SOURCE)
        assert re.search(r"^ +remote .*requests", words, re.MULTILINE) and "first byte" in words, words
        assert "remote" not in bench(str(home / "images"))


if __name__ == "__main__":
    run_tests(globals())
