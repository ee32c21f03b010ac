"""The Python package: its names, Loader's parameters with their defaults, the definition that each argument becomes, and states."""
import inspect
import json
import socket
import struct
import threading

import datasets
from golden import compare, harness, require

require("numpy", "penstock")
import penstock  # noqa: E402

BASE = {"batch_size": 5, "image_size": 24, "framework": "numpy", "device": "cpu", "private_daemon": False, "reconnect": 0}
CROP = {"RandomResizedCrop": {"size": 24}}
# HOME is the folder of the datasets. One for each argument that reaches the daemon.
ARGUMENTS = {
    "plain": {}, "train": {"train": False}, "seed": {"seed": 11}, "shuffle": {"shuffle": False}, "drop_last": {"drop_last": False},
    "batch_size": {"batch_size": 7}, "image_size": {"image_size": 32}, "image_sizes": {"image_size": {0: 8, 2: 16}},
    "transforms": {"transforms": [CROP, "RandomHorizontalFlip", {"ColorJitter": {"brightness": 0.4}}]},
    "ranks": {"rank": 1, "world_size": 2, "group": "g"}, "share": {"share": "all", "group": "g"}, "wait_for": {"group": "g", "wait_for": 3},
    "laggard": {"group": "g", "laggard": "detach", "laggard_timeout": 7}, "prefetch": {"prefetch": 3}, "split": {"split": "[:50%]"},
    "weights": {"weights": "balanced"}, "weights_file": {"weights": "HOME/weights.npy"}, "epoch_length": {"epoch_length": 9},
    "sampling": {"sampling": {"classes": 2, "per_class": 2}, "batch_size": 4},
    "buckets": {"buckets": [(24, 16), (20, 20), (16, 24)], "image_size": 224},
    "repeats": {"repeats": 2}, "views": {"views": 2}, "labels": {"labels": "none"}, "labels_mapping": {"labels": {"manifest": "HOME/labels.csv"}},
    "on_broken": {"on_broken": "mark"}, "max_broken": {"max_broken": 0.25}, "decode": {"decode": "fast"},
    "interpolation": {"interpolation": "lanczos"}, "uint8": {"dtype": "uint8"}, "float16": {"dtype": "float16"},
    "zero_copy": {"zero_copy": True}, "mixup": {"mixup": 0.2, "num_classes": 3}, "reconnect": {"reconnect": 5},
    "sources": {"source": [("HOME/photos", 3), ("HOME/more", 1)]}, "list": {"source": ["HOME/tars/shard-000000.tar", "HOME/tars/shard-000001.tar"]},
    "stream": {"source": "stream:NAME", "batch_size": 64, "image_size": 224},
}
CONSTANTS = ("FLIPPED", "FLIPPED_VERTICALLY", "INVALID", "PADDED", "SUBSTITUTED")
SPOKEN = ("__iter__", "__len__", "__getitem__", "__enter__", "__exit__")


# ---- names ----

def parameters(function):
    shown = {}
    for one in inspect.signature(function).parameters.values():
        default = "required" if one.default is inspect.Parameter.empty else repr(one.default)
        shown[one.name] = f"{one.kind.name.lower()}, {default}"
    return shown


def members(cls):
    found = {}
    for name in dir(cls):
        if not name.startswith("_") or name in SPOKEN:
            member = inspect.getattr_static(cls, name)
            plain = getattr(member, "__func__", member)
            found[name] = parameters(plain) if inspect.isfunction(plain) else "value"
    return found


def test_names_and_parameters():
    classes = {name: getattr(penstock, name) for name in penstock.__all__ if inspect.isclass(getattr(penstock, name))}
    errors = {name: cls for name, cls in classes.items() if issubclass(cls, BaseException)}
    by_place = [name for name, one in inspect.signature(penstock.Loader.__init__).parameters.items() if one.kind == one.POSITIONAL_OR_KEYWORD]
    compare("python", {
        "names": sorted(penstock.__all__),
        "constants": {name: getattr(penstock, name) for name in CONSTANTS},
        "arguments": {name: parameters(getattr(penstock, name).__init__) for name in ("Loader", "Stream")},
        "by_place": {str(i): name for i, name in enumerate(by_place)},
        "members": {name: members(cls) for name, cls in classes.items() if name not in errors},
        "errors": {name: sorted(base.__name__ for base in cls.__mro__[1:-1]) for name, cls in errors.items()},
    }, grows=True)


# ---- definitions ----

class Recorder(threading.Thread):
    """A daemon that greets, keeps the text of OPEN, and refuses."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.texts = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(path)
        self.socket.listen(8)
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client:
                self.serve(client)

    def serve(self, client):
        while data := client.recv(65536):
            kind, _, request, stream = struct.unpack_from("<IIII", data)
            if kind == harness.HELLO:
                release = b"0.1.0"
                body = struct.pack("<QIiQII", harness.MAGIC, 1, 1, 0, len(release), 0) + release
                client.send(harness.message(harness.WELCOME, body, request))
            elif kind == harness.OPEN:
                self.texts.append(data[24:].decode())
                sentence = b"refused"
                client.send(harness.message(harness.ERROR, struct.pack("<iI", -22, len(sentence)) + sentence, request, stream))


def definition(recorder, home, name):
    words = json.loads(json.dumps({k: v for k, v in ARGUMENTS[name].items() if k != "image_size"}).replace("HOME", str(home)))
    given = {"source": str(home / "photos"), **BASE, **ARGUMENTS[name], **words}
    if name == "sources":
        given["source"] = [tuple(pair) for pair in given["source"]]
    recorder.texts.clear()
    try:
        penstock.Loader(given.pop("source"), socket=str(home / "s.sock"), **given)
        raise AssertionError("a refused stream was opened")
    except penstock.Error as error:
        assert len(recorder.texts) == 1, (name, recorder.texts, error)
    told = json.loads(recorder.texts[0].replace(str(home), "HOME"))
    return {key: "..." if key == "group" and value != "g" else value for key, value in told.items()}


def test_definitions():
    """What each argument writes into OPEN, by way of struct penstock_options."""
    with harness.folder() as home:
        datasets.make(home)
        recorder = Recorder(str(home / "s.sock"))
        found = {name: definition(recorder, home, name) for name in ARGUMENTS}
        recorder.socket.shutdown(socket.SHUT_RDWR)
        recorder.join(harness.LIMIT)
        recorder.socket.close()
    compare("loaders", found)


# ---- states ----

def test_states():
    """state_dict() before an epoch, within one, and after it; a loader goes on from each."""
    with harness.folder() as home:
        datasets.make(home)
        datasets.check(home)
        found = {}
        with harness.Daemon(home, "--threads", "2") as daemon:
            keys = {"source": str(home / "photos"), "socket": daemon.socket, "private_daemon": False}
            keys = {**keys, "batch_size": 5, "image_size": 24, "seed": 3, "framework": "numpy", "device": "cpu"}
            with penstock.Loader(**keys) as loader:
                found["begin"] = loader.state_dict()
                for number, _ in enumerate(loader):
                    found[f"after batch {number}"] = loader.state_dict()
                found["after the epoch"] = loader.state_dict()
            with penstock.Loader(**keys, state=found["after batch 1"]) as loader:
                found["opened again"] = loader.state_dict()
    compare("state_dict", found)


if __name__ == "__main__":
    harness.run_tests(globals())
