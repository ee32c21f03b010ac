"""Names that users write down: keys of penstock.yaml and of definitions, options of the programs, and
metrics. These listings may grow; a name that is missing is an error."""
import http.client
import re
import socket
import subprocess

import golden
from golden import compare, harness
from harness import Daemon, Link, folder, make_dataset, run_tests, tool, wait_until

SUBCOMMANDS = "bench cache check decode pack plan replay show state status stop top why".split()
OPTION = re.compile(r"^ {2,8}(?:(-\w), |    )?(--[a-z][a-z-]*)(?:[ ,]|$)", re.MULTILINE)


# ---- options ----

def takes(command, option):
    """Whether an option that help no longer lists, since it has another name now, still does what it did."""
    last = "--check-config" if command == [tool("penstockd")] else "--help"
    done = subprocess.run([*command, option, last], capture_output=True, text=True, timeout=harness.LIMIT)
    return done.returncode == 0 and f"{option} is the old name of" in done.stderr


def options_of(*command):
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=harness.LIMIT)
    assert done.returncode == 0, done.stderr
    found = sorted({" ".join(filter(None, names)) for names in OPTION.findall(done.stdout)})
    more = re.findall(r"(?<=, )--[a-z-]+$", done.stdout, re.MULTILINE)  # several on one line
    assert found, done.stdout
    return sorted({*found, *more})


def test_options():
    found = {name: options_of(tool("penstock"), name) for name in SUBCOMMANDS}
    found["penstock"] = options_of(tool("penstock"))
    found["penstockd"] = options_of(tool("penstockd"))
    for name, options in {} if golden.UPDATE else golden.read("options").items():
        command = [tool(name)] if name.startswith("penstock") else [tool("penstock"), name]
        found[name] += [option for option in options if option not in found[name] and takes(command, option)]
    compare("options", found, grows=True)


def test_subcommands():
    text = subprocess.run([tool("penstock"), "--help"], capture_output=True, text=True, check=True).stdout
    missing = [name for name in SUBCOMMANDS if not re.search(rf"^\s+{name}\b", text, re.MULTILINE)]
    assert not missing, missing


# ---- penstock.yaml ----

# Each key of the daemon with values that it accepts; another key is refused.
SETTINGS = {
    "socket": ["/tmp/s.sock", '""'], "memory": ["auto", "64M", "1G"], "threads": ["auto", "3"], "numa": ["auto", "off"], "reader": ["auto", "io_uring", "pread"],
    "reader_threads": ["auto", "8"], "io": ["auto", "buffered", "direct"], "cache": ["auto", "on", "off"], "cache_dir": ["/tmp/c", '""'],
    "checkpoints": ["on", "off", "true"], "entry_points": ["on", "off", "true"], "http": ["auto", "off", "9470", "127.0.0.1:9470", '"[::1]:9470"', "unix:/tmp/h.sock"],
    "recorder": ["auto", "off"], "recorder_size": ["1M", "256M"], "idle_exit_s": ["0", "10"],
    "log_level": ["error", "warning", "info", "debug", '"warning, trainer=debug"',
                  *(f'"info, {topic}=debug"' for topic in "daemon memory reader stream trainer http recorder".split())],
    "log_format": ["human", "json"], "log_to": ["auto", "stderr", "journal"], "max_clients": ["1", "4096"], "max_streams": ["1", "100"],
    "stream_memory": ["auto", "64M"], "open_streams": ["any", "named"], "roots": ["[]", "[/tmp]"], "seccomp": ["auto", "on", "off"],
    "core_files": ["on", "off"], "streams": ["{}", "{a: {source: /tmp}}"], "cache_size": ["auto", "off", "64M", "1024G"],
    "remote": ["{}", *(f"{{{key}}}" for key in ("endpoint_url: 'http://127.0.0.1:8333'", "region: eu-west-1", "profile: p", "anonymous: on",
                                                "requester_pays: on", "path_style: auto", "path_style: on", "path_style: off",
                                                "connections: 1024", "bandwidth: unlimited", "bandwidth: 64K", "timeout_s: 86400",
                                                "hedge: 0", "hedge: 0.2", "plain_http: []", "plain_http: [host]"))],
}
# Each key of a stream that configuration file and definitions share.
STREAM = {
    "source": ["/tmp"], "sources": ["[{source: /tmp, weight: 3}, {source: /var, weight: 0.5}]"], "split": ['"train[:90%]"', '"[10:20]"'],
    "indices": ["/tmp/i.npy"], "weights": ["balanced", "/tmp/w.npy"], "epoch_length": ["1", "100000"], "repeats": ["16"],
    "sampling": ["{classes: 16, per_class: 4}"],
    "buckets": ["[224]", "[[256, 192], [224, 224], [192, 256]]"],
    "batch_size": ["1", "65536"], "image_size": ["1", "4096", "{0: 128, 16: 192}"], "views": ["1", "16"],
    "dtype": ["uint8", "float32", "float16", "bfloat16"], "layout": ["NHWC", "NCHW"], "mean": ["[0.1, 0.2, 0.3]"], "std": ["[0.1, 0.2, 0.3]"],
    "train": ["true", "false"], "shuffle": ["true", "false"], "drop_last": ["true", "false"], "seed": ["0", "18446744073709551615"],
    "epochs": ["0", "4294967295"], "prefetch": ["2", "64"],
    "labels": ["auto", "none", "folder", "cls", "json", "{manifest: /tmp/l.csv}", "{json: a.b}",
               *(f"{{manifest: /tmp/l.csv, type: {kind}, classes: /tmp/c.txt}}" for kind in ("class", "multi_hot", "classes")),
               "{manifest: /tmp/l.csv, type: float}"],
    "on_broken": ["substitute", "mark", "fail"], "max_broken": ["0", "1"], "decode": ["exact", "fast"],
    "interpolation": ["bilinear", "bicubic", "box", "hamming", "lanczos", "nearest", "random"], "transforms": ["[RandomResizedCrop: {size: 8}]"],
    "group": ["job-1"], "share": ["all", "split"], "wait_for": ["1024"], "laggard": ["block", "detach"], "laggard_timeout_s": ["86400"],
}
BESIDE = {"mean": "dtype: float32", "std": "dtype: float32"}
SEVERAL = 20  # streams that one file defines here


def accepted(home, text):
    """Whether penstockd takes the file; what it says otherwise."""
    path = home / "penstock.yaml"
    path.write_text(text)
    done = subprocess.run([tool("penstockd"), "--check-config", "--config", str(path)], capture_output=True, text=True,
                          timeout=harness.LIMIT)
    assert done.returncode in (0, 2), (done.returncode, done.stderr)
    return None if done.returncode == 0 else done.stderr.strip()


def stream_text(name, key, value):
    lines = [f"{key}: {value}", BESIDE.get(key, ""), "" if key in ("source", "sources") else "source: /tmp"]
    return f"  {name}:\n" + "".join(f"    {line}\n" for line in lines if line)


def test_keys_of_the_configuration():
    with folder() as home:
        probes = [f"{key}: {value}\n" for key, values in SETTINGS.items() for value in values]
        streams = [(key, value) for key, values in STREAM.items() for value in values]
        for i in range(0, len(streams), SEVERAL):
            probes.append("streams:\n" + "".join(stream_text(f"s{n}", *pair) for n, pair in enumerate(streams[i:i + SEVERAL])))
        refused = {text: why for text in probes if (why := accepted(home, text))}
        assert not refused, refused
        assert accepted(home, "nonsense: 1\n") and accepted(home, "streams:\n" + stream_text("s", "nonsense", "1"))
        listed = harness.ROOT / "config/penstock.yaml"
        assert accepted(home, listed.read_text()) is None
    new = set(re.findall(r"^(\w+):", listed.read_text(), re.MULTILINE)) - SETTINGS.keys()
    of_streams = re.sub(r".*^# streams:$", "", listed.read_text(), flags=re.DOTALL | re.MULTILINE)
    new |= set(re.findall(r"^#     (?:# )?([a-z_]+): \S+$", of_streams, re.MULTILINE)) - STREAM.keys()
    if new:
        print("in config/penstock.yaml and not in the listing of names.py yet:", *sorted(new))


def test_keys_of_readers():
    """What only a client writes: beside `stream:` too."""
    keys = {"epochs": 1, "group": "g", "share": "split", "rank": 0, "world_size": 2, "wait_for": 1, "laggard": "detach",
            "laggard_timeout_s": 5, "pin_memory": True}
    with folder() as home:
        images = make_dataset(home / "images", per_class=4, min_side=32, max_side=40)
        config = f"streams: {{a: {{source: {images}, batch_size: 2, image_size: 8, share: split}}}}\n"
        with Daemon(home, "--threads", "1", config=config) as daemon, Link(daemon.socket) as link:
            for named in ({"stream": "a"}, {"source": "stream:a"}):
                stream = link.open(**named, **keys)
                assert stream.opened().world_size == 2
                state = stream.state()
                stream.close()
                stream = link.open(**named, **{**keys, "group": "h"}, state=state, reconnect=True)
                stream.opened()
                stream.close()
            refused = link.open(stream="a", nonsense=1)
            try:
                refused.opened()
                raise AssertionError("a key that no reader has was accepted")
            except harness.Refused:
                pass


# ---- metrics ----

def get(path, place):
    connection = http.client.HTTPConnection("localhost", timeout=harness.LIMIT)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request("GET", place)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    assert answer.status == 200, body
    return body


def metrics_of(text):
    """{family: {type, names: {sample: [labels]}}} of Prometheus' text."""
    found, family = {}, None
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            family, kind = line.split()[2:4]
            found[family] = {"type": kind, "samples": {}}
        elif line and not line.startswith("#"):
            name, labels = re.match(r"([\w:]+)(?:\{(.*)\})? ", line).groups()
            names = re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', labels or "")
            known = found[family]["samples"].setdefault(name, [])
            known += [label for label in names if label not in known]
    return {name: {"type": told["type"], "samples": {k: sorted(v) for k, v in told["samples"].items()}} for name, told in found.items()}


def test_metrics():
    with folder() as home:
        images = make_dataset(home / "images", per_class=8, min_side=32, max_side=40)
        with Daemon(home, "--threads", "1") as daemon, Link(daemon.socket) as link:
            stream = link.open(source=images, batch_size=4, image_size=8, group="g")
            stream.read(4)
            path = wait_until(lambda: next(iter((home / "run").glob("http.sock")), None), "the page's socket")
            found = metrics_of(get(str(path), "/metrics"))
            stream.close()
    compare("metrics", found, grows=True)


if __name__ == "__main__":
    run_tests(globals())
