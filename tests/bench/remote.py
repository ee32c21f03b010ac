#!/usr/bin/env python3
"""Data over a network: penstock from servers on loopback, beside local files, beside what the servers give, and beside its peers.

    tests/bench/remote.py BUILD IMAGES [--python PYTHON] [--rounds 3] [--seconds 4] [--threads 2] [--repeat 16] [--peer-repeat 4]
                          [--only NAME,NAME] [--long] [--json FILE]

The JPEGs of the folder IMAGES, `repeat` times, are written into 8 tars, which nginx serves over HTTP and HTTPS and SeaweedFS over S3, with
everything on this machine: the cores are shared by server, daemon and trainer. PYTHON has NumPy; for the peers also torch, webdataset,
streaming, litdata and s3torchconnector. Parts, in this order; --only chooses some:

  http, s3    images/s of local tars, of a warm cache (bar: 0.95 of local), without a cache and while the cache is filled (bar: 0.9 of the
              lesser of local and of what parallel ranged GETs of this program get from the server); CPU us per MB of server, daemon and
              trainer; CPU of fetching (bar: 25 us of user time per MB); peak memory of the daemon
  https       the same without a cache, so that the cost of TLS is apart
  bytes       fetched in later epochs with a cache of a half (bar: 0.52 of the dataset) and of a quarter (0.77), for both orders
  requests    of an epoch without a cache, for both orders
  disturbed   a server that answers 5 % of requests with 503, stalls 1 % for 10 s, cuts 1 % short and resets 2 %: rate as a share of the same
              server's undisturbed rate (bar: 0.85), and whether every row is that of the local tars
  gone        the server is away for some seconds (60 with --long), and comes back: every row is exact; then for good: the error
  peers       beside webdataset, mosaicml-streaming, litdata and s3torchconnector on SeaweedFS, first and later epochs (bar: 3 times each),
              and the disk that each uses. They decode with PIL in 2 workers, and read whole shards in their first epoch, which is what
              `shuffle: blocks` does; a full shuffle, which none of them has, is measured too

Figures are medians of interleaved rounds. A row is printed when it is measured; --json FILE has all figures so far at any time. MB are
10^6 bytes of images. The exit status is 1 if a bar is missed. A part whose server is not installed is left out, with a word."""
import argparse
import contextlib
import datetime
import hashlib
import hmac
import http.client
import io
import json
import os
import random
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

SHARDS = 8
REGION = "us-east-1"
TICK = os.sysconf("SC_CLK_TCK")
BATCH = 32
EXACT = {"batch_size": BATCH, "image_size": 64, "seed": 11, "max_broken": 0, "on_broken": "fail"}
ORDERS = {"full": 1, "blocks": 2}  # penstock_options.shuffle
AUTHORITIES = ("AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE")
PARTS = ("http", "s3", "https", "bytes", "requests", "disturbed", "gone", "peers")
PEERS = ("webdataset", "webdataset-cache", "streaming", "litdata", "s3torchconnector")


def shard(number):
    return f"t-{number:02}.tar"


SPEC = f"t-{{00..{SHARDS - 1:02}}}.tar"


# ---- children: processes that this program starts with --child


def say(**figures):
    print(json.dumps(figures), flush=True)


def child_loader(job):
    """A trainer that takes batches: a window of some seconds, or whole epochs, each from its first batch on."""
    import penstock  # pylint: disable=import-outside-toplevel

    with penstock.Loader(job["source"], batch_size=BATCH, image_size=224, device="cpu", dtype="uint8", framework="numpy", seed=job.get("seed", 1),
                         socket=job["socket"], private_daemon=False, shuffle=job.get("shuffle")) as loader:
        if "epochs" in job:
            return passes(lambda: loader, job["epochs"])
        batches = endless(lambda: loader)
        begin = time.perf_counter()
        next(batches)
        while time.perf_counter() - begin < 1:
            next(batches)
        say(begin=time.process_time())
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < job["seconds"]:
            next(batches)
            count += BATCH
        return say(images=count, seconds=time.perf_counter() - start, cpu=time.process_time())


def endless(make):
    while True:
        yield from make()


def passes(make, epochs):
    """The images and seconds of each epoch, from its first batch to its last."""
    for number in range(epochs):
        if number == 0:
            say(begin=time.process_time())
        start = count = 0
        for batch in make():
            size = len(batch[0] if isinstance(batch, (list, tuple)) else batch)
            if start:
                count += size
            start = start or time.perf_counter()
        say(images=count, seconds=time.perf_counter() - start, cpu=time.process_time())


def child_raw(job):
    """Ranged GETs of one size at random places: threads with a connection each, in one process."""
    context = ssl.create_default_context(cafile=job["ca"]) if job.get("ca") else None
    got, stop = [0] * job["threads"], time.perf_counter() + job["seconds"]

    def reads(number):
        where = urlsplit(job["urls"][0])
        with socket.create_connection((where.hostname, where.port)) as plain:
            connection = context.wrap_socket(plain, server_hostname=where.hostname) if context else plain
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            room = memoryview(bytearray(1 << 20))
            while time.perf_counter() < stop:
                url, offset = urlsplit(random.choice(job["urls"])), random.randrange(job["size"] - job["range"])
                target = url.path + ("?" + url.query if url.query else "")
                connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {url.netloc}\r\nRange: bytes={offset}-{offset + job['range'] - 1}\r\n\r\n".encode())
                head = b""
                while b"\r\n\r\n" not in head:
                    part = connection.recv(1 << 14)
                    assert part, "the server closed a connection"
                    head += part
                assert head.startswith(b"HTTP/1.1 206"), head[:300]
                left = job["range"] - (len(head) - head.index(b"\r\n\r\n") - 4)
                while left > 0:
                    left -= connection.recv_into(room, min(left, len(room)))
                    # As penstock does: a server may hold back the rest until what came is acknowledged (Nagle's algorithm).
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                got[number] += job["range"]

    start = time.perf_counter()
    threads = [threading.Thread(target=reads, args=(number,)) for number in range(job["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(bytes=sum(got), seconds=time.perf_counter() - start, cpu=time.process_time())


def child_write(job):
    import containers  # pylint: disable=import-outside-toplevel

    containers.WRITERS[job["name"]](job["images"], Path(job["to"]))


class Rows:
    """What a peer's samples become: containers.py's RandomResizedCrop and flip, by PIL."""

    def __init__(self, key):
        self.key = key

    def __call__(self, sample):
        import containers  # pylint: disable=import-outside-toplevel

        data = sample[self.key] if self.key else sample
        return containers.row_of(data)


def peer_webdataset(job):
    import webdataset  # pylint: disable=import-outside-toplevel

    urls = [f"pipe:curl -s -f '{url}'" for url in job["urls"]]
    keys = {}
    if job["name"].endswith("-cache"):
        keys = {"cache_dir": job["cache"], "url_to_name": lambda url: "/".join(url.split("?")[0].split("/")[-1:])}
    return webdataset.WebDataset(urls, shardshuffle=len(urls), **keys).shuffle(100).map(Rows("jpg"))


def peer_streaming(job):
    from streaming import StreamingDataset  # pylint: disable=import-outside-toplevel

    class Dataset(StreamingDataset):
        def __getitem__(self, number):
            return Rows("image")(super().__getitem__(number))

    return Dataset(remote="s3://bucket/mds", local=job["cache"], shuffle=True, batch_size=BATCH)


def peer_litdata(job):
    import litdata  # pylint: disable=import-outside-toplevel
    from PIL import Image  # pylint: disable=import-outside-toplevel

    import containers  # pylint: disable=import-outside-toplevel

    # litdata has no option for a store without TLS.
    litdata.streaming.downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # pylint: disable=protected-access

    class Dataset(litdata.StreamingDataset):
        def __getitem__(self, number):
            image = super().__getitem__(number)["image"]  # a tensor: litdata has decoded it
            return containers.row_of_image(Image.fromarray(image.permute(1, 2, 0).numpy()))

    return Dataset("s3://bucket/litdata", cache_dir=job["cache"], shuffle=True, storage_options={"endpoint_url": os.environ["AWS_ENDPOINT_URL"]})


def peer_s3torchconnector(job):
    """Its objects as files, and a tar reader: as in its examples."""
    import torch  # pylint: disable=import-outside-toplevel
    from s3torchconnector import S3ClientConfig, S3IterableDataset  # pylint: disable=import-outside-toplevel

    class Dataset(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info()
            uris = [f"s3://bucket/{name}" for name in job["shards"]][worker.id::worker.num_workers]
            random.shuffle(uris)
            config = S3ClientConfig(force_path_style=True)
            for object_ in S3IterableDataset.from_objects(uris, region=REGION, endpoint=os.environ["AWS_ENDPOINT_URL"], s3client_config=config):
                with tarfile.open(fileobj=object_, mode="r|") as tar:
                    for member in tar:
                        if member.name.endswith(".jpg"):
                            yield Rows(None)(tar.extractfile(member).read())

    return Dataset()


def child_peer(job):
    import torch  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(1)
    make = {"webdataset": peer_webdataset, "streaming": peer_streaming, "litdata": peer_litdata,
            "s3torchconnector": peer_s3torchconnector}[job["name"].split("-")[0]]
    data = make(job)
    keys = {"batch_size": BATCH, "num_workers": job["workers"], "drop_last": True, "persistent_workers": True}
    if job["name"] == "litdata":
        import litdata  # pylint: disable=import-outside-toplevel

        loader = litdata.StreamingDataLoader(data, **keys)
    else:
        loader = torch.utils.data.DataLoader(data, **keys)
    passes(lambda: loader, 2)
    sys.stdout.flush()
    os._exit(0)  # some leave processes behind that wait for each other


CHILDREN = {"loader": child_loader, "raw": child_raw, "write": child_write, "peer": child_peer}


# ---- processes and their CPU


def stat_of(path):
    """(parent, user seconds, kernel seconds) of a process or thread."""
    text = path.read_text()
    fields = text[text.rindex(")") + 2:].split()
    return int(fields[1]), int(fields[11]) / TICK, int(fields[12]) / TICK


def below(names):
    """All processes below this one whose program is among `names`."""
    parents, found = {}, []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            parents[int(path.parent.name)] = stat_of(path)[0]
    for pid in parents:
        at = pid
        while at in parents and at != os.getpid():
            at = parents[at]
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            if at == os.getpid() and any(name in command.replace("\0", " ") for name in names):
                found.append(pid)
    return found


def cpu_of(pids):
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += sum(stat_of(Path(f"/proc/{pid}/stat"))[1:])
    return total


def fetching_of(pid):
    """User and kernel seconds of the daemon's threads for remote data: the network's and the cache's."""
    user = kernel = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().startswith("remote-"):
                _, one, two = stat_of(task / "stat")
                user, kernel = user + one, kernel + two
    return user, kernel


class Memory(threading.Thread):
    """The most that a process had, in MiB: resident at all (VmHWM), and of its own (anonymous and shared memory)."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.own, self.ended = pid, 0, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.05):
            with contextlib.suppress(OSError, ValueError):
                lines = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if ":" in line)
                self.most = int(lines["VmHWM"].split()[0]) >> 10
                self.own = max(self.own, (int(lines["RssAnon"].split()[0]) + int(lines["RssShmem"].split()[0])) >> 10)

    def end(self):
        self.ended.set()
        self.join()
        return {"resident_mib": self.most, "own_mib": self.own}


# ---- S3 by presigned URLs, so that any program reads it


def presigned(endpoint, key, method="GET", expires=86400):
    """The URL of a key of "bucket", signed in its query (Signature Version 4)."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    host = urlsplit(endpoint).netloc
    query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{servers.KEYS['AWS_ACCESS_KEY_ID']}/{scope}", "X-Amz-Date": now,
             "X-Amz-Expires": str(expires), "X-Amz-SignedHeaders": "host"}
    text = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(query.items()))
    path = f"/bucket/{quote(key)}" if key else "/bucket"
    request = f"{method}\n{path}\n{text}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    secret = b"AWS4" + servers.KEYS["AWS_SECRET_ACCESS_KEY"].encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    return f"{endpoint}{path}?{text}&X-Amz-Signature={hmac.new(secret, sign.encode(), 'sha256').hexdigest()}"


def put(endpoint, key, path=None):
    url = urlsplit(presigned(endpoint, key, "PUT"))
    for attempt in range(100):  # SeaweedFS answers before it has a place for objects
        connection = http.client.HTTPConnection(url.netloc, timeout=120)
        with contextlib.ExitStack() as stack:
            body = stack.enter_context(open(path, "rb")) if path else b""
            connection.request("PUT", f"{url.path}?{url.query}", body, {"Content-Length": str(path.stat().st_size if path else 0)})
            answer = connection.getresponse()
            said = answer.read()
        connection.close()
        if answer.status in (200, 409):
            return
        time.sleep(0.1)
    raise AssertionError((key, answer.status, said))


# ---- the bench


class Bench:
    """What all parts share: the tars, figures so far, and the rows that are printed."""

    def __init__(self, options, home, stack):
        self.options, self.home, self.stack, self.figures, self.missed, self.served = options, home, stack, {}, 0, None
        # Certificates of the caller's environment would come before those of these servers. Daemons inherit it from this process.
        for key in [key for key in os.environ if key in AUTHORITIES or key.lower().endswith("_proxy")]:
            del os.environ[key]
        self.environment = {**os.environ, "PYTHONPATH": str(Path(options.build).resolve() / "python"), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "",
                            "AWS_REGION": REGION, **servers.KEYS}
        self.data = home / "tars"
        self.samples, self.image_bytes, self.tar_bytes = write_tars(options.images, options.repeat, self.data)
        self.mean = self.image_bytes / self.samples
        self.log = home / "requests.log"
        self.log.touch()

    def web(self):
        """One nginx for all parts, since indexes belong to URLs."""
        if not self.served:
            self.served = self.stack.enter_context(web(self))
        return self.served

    def row(self, part, name, figure, bar=None, good=None, note="", **figures):
        self.figures.setdefault(part, {})[name] = {**figures, "bar": bar, "good": good}
        if self.options.json:
            new = Path(f"{self.options.json}.part")
            new.write_text(json.dumps(self.figures, indent=1) + "\n", encoding="utf-8")
            new.replace(self.options.json)
        self.missed += good is False
        print(f"| {part} | {name} | {figure} | {bar or ''} | {'' if good is None else 'holds' if good else 'MISSED'} | {note} |", flush=True)

    def progress(self, text):
        print(f"{datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def daemon(self, prepared=None, size=None, more="", environment=None):
        """A daemon of its own; with the indexes and entry points in `prepared`; with a cache of `size` bytes in cache_dir."""
        with harness.folder() as home:
            cache = home / "data"
            if prepared and prepared.is_dir():
                shutil.copytree(prepared, cache)
            else:
                cache.mkdir()
            config = f"cache_dir: {cache}\ncache_size: {size or 'off'}\ncache: off\n{more}"
            with harness.Daemon(home, "--threads", str(self.options.threads), config=config, environment={**self.environment, **(environment or {})}) as daemon:
                daemon.cache = cache
                yield daemon

    def child(self, kind, measured=None, python=None, environment=None, **job):
        """Lines of JSON that the child prints; `measured` is called as the line "begin" comes, and at the end."""
        command = [python or self.options.python, __file__, self.options.build, str(self.options.images), "--child", kind, "--job", json.dumps(job)]
        with subprocess.Popen(command, env={**self.environment, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            errors = []
            reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
            reader.start()
            lines, timer = [], threading.Timer(self.options.limit, lambda: os.killpg(process.pid, signal.SIGKILL))
            timer.start()
            for line in process.stdout:
                if line.startswith("{"):
                    lines.append(json.loads(line))
                    if measured:
                        measured(lines)
            code = process.wait()
            timer.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            reader.join()
        if code:
            raise RuntimeError(f"{kind} {job.get('name', '')} ended with {code}: {errors[0][-1500:]}")
        return lines

    def trainer(self, daemon, source, names=(), **job):
        """Images/s of a loader, and what it cost: CPU us per MB of images of server, daemon, trainer and the daemon's fetching."""
        points, serving = [], below(names) if names else []

        def measured(_lines):
            points.append((cpu_of(serving), cpu_of([daemon.process.pid]), fetching_of(daemon.process.pid)))

        memory = Memory(daemon.process.pid)
        lines = self.child("loader", measured, source=source, socket=daemon.socket, **job)
        images, seconds = sum(line["images"] for line in lines[1:]), sum(line["seconds"] for line in lines[1:])
        # An epoch counts from its first batch on; what the processes used covers all of it.
        megabytes = (images + (BATCH * (len(lines) - 1) if "epochs" in job else 0)) * self.mean / 1e6
        first, last = points[0], points[-1]
        cost = {"server": last[0] - first[0], "daemon": last[1] - first[1], "trainer": lines[-1]["cpu"] - lines[0]["begin"],
                "fetching_user": last[2][0] - first[2][0], "fetching_kernel": last[2][1] - first[2][1]}
        return {"rate": images / seconds, **{f"{key}_us_per_mb": value * 1e6 / megabytes for key, value in cost.items()}, **memory.end()}

    def raw(self, urls, size, ca=None):
        """MB/s of parallel ranged GETs, each of the mean image's bytes, in two processes."""
        job = {"urls": urls, "size": size, "range": int(self.mean), "threads": 8, "seconds": self.options.seconds, "ca": ca}
        results = [None, None]

        def one(number):
            results[number] = self.child("raw", **job)[0]

        threads = [threading.Thread(target=one, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(result["bytes"] / result["seconds"] for result in results) / 1e6

    def prepared(self, name, source, environment=None):
        """A folder with the indexes and entry points of a source, made by `penstock check --index`."""
        place = self.home / f"prepared-{name}"
        if not place.exists():
            self.progress(f"indexes and entry points: {name}")
            done = subprocess.run([harness.tool("penstock"), "check", "--index", source], capture_output=True, text=True, timeout=self.options.limit,
                                  env={**self.environment, **(environment or {}), "XDG_CACHE_HOME": str(place)}, check=False)
            if done.returncode:
                raise RuntimeError(f"penstock check --index {source}: {done.stderr[-1500:]}")
        return place / "penstock"

    def asked(self, mark=0):
        """(bytes, requests) that nginx's log has of tars since `mark`, and the new mark."""
        text = self.log.read_bytes()
        lines = [line.split() for line in text[mark:].decode().splitlines()]
        tars = [line for line in lines if line[0] == "GET" and line[3].endswith(".tar")]
        return sum(int(line[2]) for line in tars), len(tars), len(text)

    def exact(self, daemon, source, epochs=1, may_fail=False, **keys):
        """Runs the trainer of the tests, which prints checksums: (batches, images/s from the first one on, times, how it ended)."""
        trainer = daemon.trainer(source=source, epochs=epochs, train=1, **{**EXACT, **keys})
        timer = threading.Timer(self.options.limit, trainer.process.kill)
        timer.start()
        lines, times = [], []
        for line in trainer.process.stdout:
            lines.append(line)
            if line[0].isdigit():
                times.append(time.perf_counter())
        code = trainer.process.wait()
        timer.cancel()
        said = trainer.process.stderr.read() + "".join(line for line in lines if line.startswith("error"))
        if code and not may_fail:
            raise RuntimeError(f"dump_batches source={source} ended with {code}: {said}")
        batches = [line.split() for line in lines if line[0].isdigit()]
        rate = sum(int(batch[2]) for batch in batches[1:]) / (times[-1] - times[0]) if len(times) > 1 else 0
        # What a trainer reads; the last field has flags of how it came.
        return [batch[:6] for batch in batches], rate, times, (code, said)


def write_tars(images, repeat, to):
    """(samples, bytes of their images, bytes of the tars): all images of a folder, `repeat` times, in turns over the shards."""
    to.mkdir()
    files = sorted(path for path in Path(images).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not files:
        sys.exit(f"remote.py: no JPEGs in {images}")
    classes = sorted({path.name.split("_")[0] for path in files})
    with contextlib.ExitStack() as stack:
        tars = [stack.enter_context(tarfile.open(to / shard(number), "w", format=tarfile.USTAR_FORMAT)) for number in range(SHARDS)]
        count = total = 0
        for _ in range(repeat):
            for path in files:
                data = path.read_bytes()
                label = str(classes.index(path.name.split("_")[0])).encode()
                for name, content in ((f"{count:08}.jpg", data), (f"{count:08}.cls", label)):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    tars[count % SHARDS].addfile(info, io.BytesIO(content))
                count, total = count + 1, total + len(data)
    return count, total, sum(path.stat().st_size for path in to.iterdir())


@contextlib.contextmanager
def web(bench):
    """nginx with the tars: (URL, https URL, certificate)."""
    words = f"log_format asked '$request_method $status $body_bytes_sent $uri'; access_log {bench.log} asked; sendfile on; tcp_nopush on;"
    with servers.nginx(words) as (plain, tls, certificate, home):
        for path in bench.data.glob("*.tar"):
            try:
                os.link(path, home / path.name)
            except OSError:
                shutil.copy(path, home / path.name)
        yield plain, tls, certificate


def median(runs, key="rate"):
    return statistics.median(run[key] for run in runs)


def costs(runs):
    return "CPU us/MB: " + ", ".join(f"{key} {median(runs, f'{key}_us_per_mb'):.0f}" for key in ("server", "daemon", "trainer"))


def fetching(bench, part, name, runs):
    user, kernel = (median(runs, f"fetching_{key}_us_per_mb") for key in ("user", "kernel"))
    bar = 25 if part != "https" else None
    bench.row(part, f"{name}: CPU of fetching", f"{user:.1f} us/MB", f"<= {bar} us/MB" if bar else "", user <= bar if bar else None,
              f"and in the kernel {kernel:.1f}", user=user, kernel=kernel)
    most, own = max(run["resident_mib"] for run in runs), max(run["own_mib"] for run in runs)
    bench.row(part, f"{name}: memory of the daemon", f"{own} MiB", note=f"resident with mapped files {most} MiB", own=own, resident=most)


def rates(bench, part, source, names, raw, environment, kinds):
    """Local, warm, without a cache, filling the cache and the server's own rate, in interleaved rounds."""
    options = bench.options
    runs = {kind: [] for kind in ("local", *kinds, "server")}
    local_prepared, prepared = bench.prepared("local", str(bench.data / SPEC)), bench.prepared(part, source, environment)
    # The cache has room for all of it, and its checksums and indexes.
    room = f"{(bench.tar_bytes * 5 // 4 >> 20) + 128}M"
    with contextlib.ExitStack() as stack:
        warm = None
        if "warm" in kinds:
            warm = stack.enter_context(bench.daemon(prepared, room, environment=environment))
            bench.progress(f"{part}: the cache is filled")
            bench.trainer(warm, source, epochs=2)
        for number in range(options.rounds):
            order = list(runs)
            for kind in order if number % 2 else reversed(order):
                bench.progress(f"{part}: round {number + 1} of {options.rounds}: {kind}")
                if kind == "server":
                    runs[kind].append({"rate": raw() * 1e6 / bench.mean})
                elif kind == "warm":
                    runs[kind].append(bench.trainer(warm, source, names, seconds=options.seconds, seed=number))
                elif kind == "local":
                    with bench.daemon(local_prepared) as daemon:
                        runs[kind].append(bench.trainer(daemon, str(bench.data / SPEC), seconds=options.seconds, seed=number))
                elif kind == "filling":
                    with bench.daemon(prepared, room, environment=environment) as daemon:
                        runs[kind].append(bench.trainer(daemon, source, names, epochs=1, seed=number))
                else:
                    shuffle = "blocks" if kind == "blocks" else True
                    with bench.daemon(prepared, environment=environment) as daemon:
                        runs[kind].append(bench.trainer(daemon, source, names, seconds=options.seconds, seed=number, shuffle=shuffle))
    local, server = median(runs["local"]), median(runs["server"])
    bench.row(part, "local tars", f"{local:.0f} images/s", note=costs(runs["local"]), runs=runs["local"])
    bench.row(part, "ranged GETs", f"{server:.0f} images/s", note=f"{server * bench.mean / 1e6:.0f} MB/s, without decoding", runs=runs["server"])
    for kind, name in (("warm", "warm cache"), ("cold", "no cache"), ("blocks", "no cache, blocks"), ("filling", "filling the cache")):
        if kind not in kinds:
            continue
        if kind == "warm":
            share, bar = statistics.median(a["rate"] / b["rate"] for a, b in zip(runs[kind], runs["local"])), 0.95
        else:
            share, bar = statistics.median(a["rate"] / min(b["rate"], c["rate"]) for a, b, c in zip(runs[kind], runs["local"], runs["server"])), 0.9
        # Decoding and serving take the same cores in turns: one after the other they would reach this rate.
        turns = statistics.median(a["rate"] * (1 / b["rate"] + 1 / c["rate"]) for a, b, c in zip(runs[kind], runs["local"], runs["server"]))
        note = costs(runs[kind]) + ("" if kind == "warm" else f"; {turns:.3f} of the rate of both in turns")
        bench.row(part, name, f"{median(runs[kind]):.0f} images/s, {share:.3f}", f">= {bar}", share >= bar, note, share=share, turns=turns, runs=runs[kind])
    for kind, name in (("cold", "no cache"), ("filling", "filling the cache")):
        if kind in kinds:
            fetching(bench, part, name, runs[kind])


def part_http(bench):
    plain, _, _ = bench.web()
    urls = [f"{plain}/{shard(number)}" for number in range(SHARDS)]
    rates(bench, "http", f"{plain}/{SPEC}", ("nginx",), lambda: bench.raw(urls, bench.tar_bytes // SHARDS // 2), None,
          ("warm", "cold", "blocks", "filling"))


def part_https(bench):
    _, tls, certificate = bench.web()
    urls = [f"{tls}/{shard(number)}" for number in range(SHARDS)]
    rates(bench, "https", f"{tls}/{SPEC}", ("nginx",), lambda: bench.raw(urls, bench.tar_bytes // SHARDS // 2, str(certificate)),
          {"SSL_CERT_FILE": str(certificate)}, ("cold",))


def store(bench):
    return servers.seaweedfs(volumes=40, volume_mb=256 + bench.tar_bytes * 3 // 40 // 1000000)


def part_s3(bench):
    with store(bench) as endpoint:
        fill_store(endpoint, bench.data)
        urls = [presigned(endpoint, shard(number)) for number in range(SHARDS)]
        rates(bench, "s3", f"s3://bucket/{SPEC}", ("weed",), lambda: bench.raw(urls, bench.tar_bytes // SHARDS // 2), {"AWS_ENDPOINT_URL": endpoint},
              ("warm", "cold", "blocks", "filling"))


def fill_store(endpoint, folder):
    put(endpoint, "")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        put(endpoint, str(path.relative_to(folder)), path)


def part_bytes(bench):
    source = f"{bench.web()[0]}/{SPEC}"
    prepared = bench.prepared("http", source)
    indexes = disk_of(prepared)
    for name, part, bar in (("half", 2, 0.52), ("quarter", 4, 0.77)):
        for shuffle in ("full", "blocks"):
            bench.progress(f"bytes: {name}, {shuffle}")
            size = bench.tar_bytes // part
            if size < 64 << 20:
                bench.row("bytes", f"cache of a {name}, {shuffle}", "left out", note="the smallest cache has 64 MiB: choose a larger --repeat")
                continue
            with bench.daemon(prepared, f"{size >> 20}M") as daemon:
                before = bench.asked()
                bench.exact(daemon, source, shuffle=ORDERS[shuffle])
                filled = bench.asked(before[2])
                bench.exact(daemon, source, epochs=2, shuffle=ORDERS[shuffle], seed=12)
                later = bench.asked(filled[2])
                used = disk_of(daemon.cache)
            share = later[0] / 2 / bench.tar_bytes
            bench.row("bytes", f"cache of a {name}, {shuffle}", f"{share:.3f} of the dataset", f"<= {bar}", share <= bar and used <= size,
                      f"first epoch {filled[0] / bench.tar_bytes:.3f}; disk {used / size:.3f} of the cache's size, indexes {indexes / size:.3f} of it",
                      share=share, first=filled[0] / bench.tar_bytes, used=used, size=size, requests=later[1] / 2)


def part_requests(bench):
    source = f"{bench.web()[0]}/{SPEC}"
    prepared = bench.prepared("http", source)
    for shuffle in ("full", "blocks"):
        bench.progress(f"requests: {shuffle}")
        with bench.daemon(prepared) as daemon:
            before = bench.asked()
            rate = bench.exact(daemon, source, shuffle=ORDERS[shuffle])[1]
            got = bench.asked(before[2])
        bench.row("requests", shuffle, f"{got[1]} for {bench.samples} images", note=f"{got[0] / max(got[1], 1) / 1e3:.0f} KB each, "
                  f"{got[0] / bench.tar_bytes:.3f} of the dataset's bytes; {rate:.0f} images/s", requests=got[1], bytes=got[0], rate=rate)


class Faults:
    """tests/remote/fault_server.py, which may end and come back at the same port."""

    def __init__(self, folder, port=None, *options):
        self.folder = folder
        command = [sys.executable, str(harness.ROOT / "tests/remote/fault_server.py"), str(folder), *options]
        command += ["--port", str(port)] if port else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def end(self):
        self.process.kill()
        self.process.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def part_disturbed(bench):
    epochs = bench.options.fault_epochs
    with bench.daemon(bench.prepared("local", str(bench.data / SPEC))) as daemon:
        wanted = bench.exact(daemon, str(bench.data / SPEC), epochs=epochs)[0]
    with Faults(bench.data) as server:
        prepared, port = bench.prepared("disturbed", f"{server.url}/{SPEC}"), server.port
    runs, exact = {"undisturbed": [], "disturbed": []}, True
    for number in range(bench.options.rounds):
        for name in ("undisturbed", "disturbed") if number % 2 else ("disturbed", "undisturbed"):
            bench.progress(f"disturbed: round {number + 1} of {bench.options.rounds}: {name}")
            with Faults(bench.data, port, *(["--disturb", f"{number}:10"] if name == "disturbed" else [])) as server, bench.daemon(prepared) as daemon:
                lines, rate, _, ended = bench.exact(daemon, f"{server.url}/{SPEC}", epochs=epochs, may_fail=True)
            if lines != wanted:
                exact = False
                bench.row("disturbed", f"rows of a {name} run", f"{len(lines)} of {len(wanted)} batches", "all", False, str(ended)[:300], error=ended)
            runs[name].append({"rate": rate})
    share = statistics.median(a["rate"] / b["rate"] for a, b in zip(runs["disturbed"], runs["undisturbed"]))
    bench.row("disturbed", "undisturbed", f"{median(runs['undisturbed']):.0f} images/s", runs=runs["undisturbed"])
    bench.row("disturbed", "disturbed", f"{median(runs['disturbed']):.0f} images/s, {share:.3f}", ">= 0.85", share >= 0.85 and exact,
              "every row exact" if exact else "rows DIFFER", share=share, runs=runs["disturbed"])


def part_gone(bench):
    away = 60 if bench.options.long else 8
    with bench.daemon(bench.prepared("local", str(bench.data / SPEC))) as daemon:
        wanted = bench.exact(daemon, str(bench.data / SPEC), epochs=3)[0]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Faults(bench.data))
        source = f"{server.url}/{SPEC}"
        prepared, said = bench.prepared("gone", source), []
        with bench.daemon(prepared) as daemon:
            def leave():
                server.end()
                time.sleep(away * 0.75)
                said.append(daemon.status())
                time.sleep(away * 0.25)
                stack.enter_context(Faults(bench.data, server.port))

            timer = threading.Timer(2, leave)
            timer.start()
            lines, _, times, ended = bench.exact(daemon, source, epochs=3, may_fail=True)
            timer.join()
        longest = max((b - a for a, b in zip(times, times[1:])), default=0)
        verdicts = sorted({text for text in sentences(said) if "waiting for" in text})
        bench.row("gone", f"for {away} s and back", f"{len(lines)} of {len(wanted)} batches", "all exact", lines == wanted,
                  f"longest wait {longest:.1f} s; status: {'; '.join(verdicts)[:300] or 'SAYS NOTHING'}; {ended[1][:200]}", wait=longest, says=verdicts)
    with Faults(bench.data) as server:
        source = f"{server.url}/{SPEC}"
        prepared = bench.prepared("gone for good", source)
        with bench.daemon(prepared, more="remote:\n  timeout_s: 5\n") as daemon:
            left = []

            def leave_for_good():
                server.end()
                left.append(time.perf_counter())

            timer = threading.Timer(2, leave_for_good)
            timer.start()
            _, _, _, ended = bench.exact(daemon, source, epochs=1000, may_fail=True)
            took = time.perf_counter() - left[0] if left else 0
            timer.join()
        bench.row("gone", "for good, timeout_s: 5", f"error after {took:.1f} s", "<= 10 s, names the URL", took <= 10 and server.url in ended[1],
                  ended[1].strip().replace("\n", " ")[:400], seconds=took, error=ended[1])


def sentences(found):
    """All texts in a JSON value."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        for one in found:
            yield from sentences(one)
    elif isinstance(found, str):
        yield found


def part_peers(bench):
    options, data = bench.options, bench.home / "peers"
    bench.progress("peers: their datasets")
    (data / "images").mkdir(parents=True)
    (data / "store").mkdir()
    files = sorted(path for path in Path(options.images).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    for copy in range(options.peer_repeat):
        for path in files:
            name, rest = (path.name.split("_", 1) + ["x"])[:2]
            os.symlink(path.resolve(), data / "images" / f"{name}_{copy:02}_{Path(rest).stem}.jpg")
    samples, image_bytes, _ = write_tars(options.images, options.peer_repeat, data / "store/tars")
    size = sum(path.stat().st_size for path in (data / "store/tars").iterdir())
    names = [name for name in PEERS if name in options.peers.split(",")]
    for name, container in (("streaming", "mds"), ("litdata", "litdata")):
        if name in names:
            bench.child("write", name=container, images=str(data / "images"), to=str(data / "store"))
    with store(bench) as endpoint:
        fill_store(endpoint, data / "store")
        source, environment = f"s3://bucket/tars/{SPEC}", {"AWS_ENDPOINT_URL": endpoint, "S3_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
        prepared = bench.prepared("peers", source, environment)
        shards = [f"tars/{shard(number)}" for number in range(SHARDS)]
        runs = {name: [] for name in ("penstock", *names)}
        for number in range(options.rounds):
            for name in list(runs) if number % 2 else list(reversed(runs)):
                bench.progress(f"peers: round {number + 1} of {options.rounds}: {name}")
                if name == "penstock":
                    runs[name].append(own_epochs(bench, source, prepared, environment, samples, size))
                else:
                    try:
                        runs[name].append(peer_epochs(bench, name, endpoint, shards, environment))
                    except RuntimeError as error:
                        runs.pop(name)
                        bench.row("peers", name, "did not run", note=str(error).replace("\n", " ")[-300:], error=str(error))
    own = runs.pop("penstock")
    for shuffle in ("blocks", "full"):
        rates = [run[shuffle] for run in own]
        bench.row("peers", f"penstock, {shuffle}", f"{median(rates, 'first'):.0f} first, {median(rates, 'later'):.0f} later, images/s",
                  note=f"first without a cache {median(rates, 'none'):.0f}; disk {median(rates, 'disk') / 1e6:.0f} MB of {image_bytes / 1e6:.0f}", runs=rates)
    for name, theirs in runs.items():
        times = {shuffle: [statistics.median(a[shuffle][key] / b[key] for a, b in zip(own, theirs)) for key in ("first", "later")]
                 for shuffle in ("blocks", "full")}
        bench.row("peers", name, f"{median(theirs, 'first'):.0f} first, {median(theirs, 'later'):.0f} later; penstock is "
                  f"{times['blocks'][0]:.2f} and {times['blocks'][1]:.2f} times as fast with blocks, {times['full'][0]:.2f} and {times['full'][1]:.2f} "
                  "with a full shuffle", ">= 3", min(times["blocks"]) >= 3, f"disk {median(theirs, 'disk') / 1e6:.0f} MB", times=times, runs=theirs)


def disk_of(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def own_epochs(bench, source, prepared, environment, samples, size):
    """For both orders: first and later epochs with a cache for all; and without one."""
    results = {}
    for name, shuffle in (("blocks", "blocks"), ("full", True)):
        result = results[name] = {}
        with bench.daemon(prepared, f"{(size * 5 // 4 >> 20) + 128}M", environment=environment) as daemon:
            before = disk_of(daemon.cache)
            result["first"] = bench.trainer(daemon, source, epochs=1, shuffle=shuffle)["rate"]
            result["later"] = bench.trainer(daemon, source, epochs=max(2, 8000 // samples), seed=2, shuffle=shuffle)["rate"]
            result["disk"] = disk_of(daemon.cache) - before
        with bench.daemon(prepared, environment=environment) as daemon:
            result["none"] = bench.trainer(daemon, source, epochs=max(2, 4000 // samples), shuffle=shuffle)["rate"]
    return results


def peer_epochs(bench, name, endpoint, shards, environment):
    with harness.folder() as cache:
        urls = [presigned(endpoint, one) for one in shards]
        lines = bench.child("peer", name=name, urls=urls, shards=shards, cache=str(cache), workers=2, environment=environment)[1:]
        first, later = (line["images"] / line["seconds"] for line in lines)
        return {"first": first, "later": later, "disk": disk_of(cache)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images")
    parser.add_argument("--python", default=sys.executable, help="a Python with NumPy and, for the peers, theirs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=16, help="how often the images are in the tars")
    parser.add_argument("--peer-repeat", type=int, default=4, help="and in those of the part peers")
    parser.add_argument("--fault-epochs", type=int, default=3, help="epochs of a run against the server that misbehaves")
    parser.add_argument("--peers", default=",".join(PEERS), help="names, separated by commas")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--long", action="store_true", help="the server is gone for 60 s")
    parser.add_argument("--limit", type=float, default=400, help="seconds that one process may take")
    parser.add_argument("--json", help="where to write all figures")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = (set(options.only.split(",")) - set(PARTS)) | (set(options.peers.split(",")) - set(PEERS))
    if unknown:
        parser.error(f"there is no part or peer {', '.join(sorted(unknown))}: parts are {', '.join(PARTS)}; peers {', '.join(PEERS)}")
    return options


def main(options):
    with harness.folder() as home, contextlib.ExitStack() as stack:
        bench = Bench(options, home, stack)
        print(f"{bench.samples} images of {bench.mean:.0f} bytes, {bench.tar_bytes / 1e6:.0f} MB in {SHARDS} tars; {os.cpu_count()} CPUs, "
              f"{options.threads} decoding threads, {options.rounds} rounds\n\n| part | what | figure | bar | | |\n|---|---|---|---|---|---|", flush=True)
        for part in PARTS:
            if part in options.only.split(","):
                try:
                    globals()[f"part_{part}"](bench)
                except harness.Skip as why:
                    bench.row(part, "left out", str(why))
                except RuntimeError as error:
                    bench.row(part, "ended", "with an error", "none", False, str(error).replace("\n", " ")[-400:], error=str(error))
        return 1 if bench.missed else 0


if __name__ == "__main__":
    OPTIONS = parse()
    if OPTIONS.child:
        sys.path.insert(0, str(Path(__file__).resolve().parent))
        CHILDREN[OPTIONS.child](OPTIONS.job)
    else:
        os.environ["PENSTOCK_BIN"] = str(Path(OPTIONS.build).resolve() / "bin")
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "remote"))
        import servers
        harness = sys.modules["harness"]
        sys.exit(main(OPTIONS))
