#!/usr/bin/env python3
"""What the Python loader costs: images per second as a multiple of what `penstock bench` makes of the same files, peak memory, first batch.

    tests/bench/python_loader.py BUILD IMAGES [--rounds 7] [--seconds 4] [--threads 2] [--torch PYTHON] [--json FILE]

Every figure of a round comes from a process of its own, with a private daemon of its own, in alternating order; a round's ratio is that of
neighbors. The trainer does nothing with its batches but drop them. With --torch, a Python that has torch and torchvision: the same with
torch's tensors, and torchvision v2's DataLoader (crop, flip, uint8) with as many workers as the daemon has threads. Memory is the proportional set
size of trainer, daemon and flight recorder together, sampled from outside in runs of their own; for torch, less what the process had right
after importing it. Prints a table in Markdown."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

BATCH, WARM_S = 64, 1.0


# ---- in the trainer's process


def loader_of(images, kind, threads):
    import penstock  # pylint: disable=import-outside-toplevel

    framework, dtype = kind.split("-")
    return penstock.Loader(images, batch_size=BATCH, threads=threads, framework=framework, dtype=dtype, device="cpu")


def epochs_of(loader):
    while True:
        yield from loader


def datasets_of(images):
    from torch.utils.data import Dataset  # pylint: disable=import-outside-toplevel
    from torchvision.io import ImageReadMode, decode_image, read_file  # pylint: disable=import-outside-toplevel
    from torchvision.transforms import v2  # pylint: disable=import-outside-toplevel

    names = sorted(str(path) for path in Path(images).iterdir())
    recipe = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()])

    class Files(Dataset):
        """The files, many times over, so that epochs do not end."""

        def __len__(self):
            return len(names) * 128

        def __getitem__(self, index):
            return recipe(decode_image(read_file(names[index % len(names)]), ImageReadMode.RGB)), 0

    return Files()


def peer_of(images, threads):
    import torch  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(1)
    return torch.utils.data.DataLoader(datasets_of(images), BATCH, shuffle=True, num_workers=threads, drop_last=True, prefetch_factor=4)


def train(images, kind, threads, seconds):
    if kind.startswith("torch") or kind == "peer":
        import torch  # pylint: disable=import-outside-toplevel,unused-import  # its seconds are not the loader's
    else:
        import numpy  # pylint: disable=import-outside-toplevel,unused-import
    print(json.dumps({"imported": True}), flush=True)
    sys.stdin.readline()
    begin = time.perf_counter()
    batches = iter(peer_of(images, threads)) if kind == "peer" else epochs_of(loader_of(images, kind, threads))
    next(batches)
    first = time.perf_counter() - begin
    while time.perf_counter() - begin < first + WARM_S:
        next(batches)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        next(batches)
        count += BATCH
    print(json.dumps({"images_per_s": count / (time.perf_counter() - start), "first_batch_s": first}), flush=True)


# ---- beside it


def pss(pid):
    """Proportional set size in MiB; 0 once the process has gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0


class Home:
    """Folders of one comparison: index and entry points are shared by its runs, sockets and records are each run's own."""

    def __init__(self, scratch):
        self.scratch, self.runs = scratch, 0

    def environment(self):
        self.runs += 1
        run = self.scratch / f"run-{self.runs}"
        run.mkdir(mode=0o700)
        return run, {**os.environ, "XDG_CACHE_HOME": str(self.scratch / "cache"), "XDG_STATE_HOME": str(run), "PENSTOCK_SOCKET": str(run / "socket"),
                     "PYTHONPATH": str(Path(OPTIONS.build).resolve() / "python")}

    def bench(self):
        _, environment = self.environment()
        done = subprocess.run([harness.tool("penstock"), "bench", OPTIONS.images, "--threads", str(OPTIONS.threads), "--seconds", str(OPTIONS.seconds), "--json"],
                              check=True, env=environment, stdout=subprocess.PIPE)
        return json.loads(done.stdout)["images_per_s"]

    def trainer(self, kind, watch=False):
        """What `train` printed, and with `watch` the peak of memory above that after the imports of torch."""
        run, environment = self.environment()
        python = OPTIONS.torch if kind.startswith("torch") or kind == "peer" else OPTIONS.python
        with subprocess.Popen([python, __file__, OPTIONS.build, OPTIONS.images, "--kind", kind, "--threads", str(OPTIONS.threads), "--seconds",
                               str(OPTIONS.seconds)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            imported = pss(process.pid) if kind.startswith("torch") else 0
            peaks, done = [0.0], threading.Event()
            watcher = threading.Thread(target=self.watch, args=(process.pid, run, peaks, done))
            if watch:
                watcher.start()
            text, _ = process.communicate("\n")
            done.set()
            if watch:
                watcher.join()
        assert process.returncode == 0, f"{kind} failed"
        subprocess.run([harness.tool("penstock"), "stop"], env=environment, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return {**json.loads(text), "peak_mib": peaks[0] - imported}

    @staticmethod
    def watch(pid, run, peaks, done):
        """The trainer, and every process that its private daemon is or has started: those that name this run's socket."""
        others = []
        while not done.wait(0.02):
            if len(others) < 2:
                others = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if Home.names(path, run)]
            peaks[0] = max(peaks[0], sum(map(pss, [pid, *others])))

    @staticmethod
    def names(path, run):
        try:
            return f"{run}/socket".encode() in path.read_bytes()
        except OSError:
            return False


def table(home):
    kinds = ["numpy-uint8", "numpy-float32"] + (["torch-uint8", "torch-float32", "peer"] if OPTIONS.torch else [])
    ratios = {kind: [] for kind in kinds}
    rates = {kind: [] for kind in [*kinds, "bench"]}
    firsts = {kind: [] for kind in kinds}
    home.bench()  # makes index and entry points, warms the page cache
    for number in range(OPTIONS.rounds):
        print(f"round {number + 1} of {OPTIONS.rounds}", file=sys.stderr, flush=True)
        for kind in kinds if number % 2 else kinds[::-1]:
            before = home.bench()
            got = home.trainer(kind)
            bench = (before + home.bench()) / 2
            rates["bench"].append(bench)
            rates[kind].append(got["images_per_s"])
            ratios[kind].append(got["images_per_s"] / bench)
            firsts[kind].append(got["first_batch_s"])
    peaks = {kind: home.trainer(kind, watch=True)["peak_mib"] for kind in kinds if kind != "peer"}
    return {"ratios": ratios, "rates": rates, "first_batch_s": firsts, "peak_mib": peaks}


def show(figures):
    floors = {"numpy-uint8": 0.95, "torch-uint8": 0.95, "numpy-float32": 0.85, "torch-float32": 0.85}
    print(f"{OPTIONS.rounds} rounds, {OPTIONS.seconds:g} s a window, {OPTIONS.threads} threads; `penstock bench` made "
          f"{statistics.median(figures['rates']['bench']):.0f} images/s (median).\n")
    print("| loader | of `penstock bench` | least to most | asked | first batch, s (asked: 0.5) | peak MiB (asked: 200) |\n|---|---|---|---|---|---|")
    for kind, ratios in figures["ratios"].items():
        name = "torchvision v2, DataLoader" if kind == "peer" else f"penstock, {kind.replace('-', ', ')}"
        peak = f"{figures['peak_mib'][kind]:.0f}" if kind in figures["peak_mib"] else ""
        print(f"| {name} | {statistics.median(ratios):.3f} | {min(ratios):.3f} to {max(ratios):.3f} | {floors.get(kind, '')} | "
              f"{statistics.median(figures['first_batch_s'][kind]):.3f} | {peak} |")
    peer = figures["rates"].get("peer")
    if peer:
        uint8 = statistics.median(figures["rates"]["torch-uint8"]) / statistics.median(peer)
        print(f"\nThe loader (torch, uint8) makes {uint8:.1f} times the images/s of torchvision v2's DataLoader with {OPTIONS.threads} workers.")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--python", default=sys.executable, help="one that has numpy")
    parser.add_argument("--torch", help="a Python that has torch and torchvision")
    parser.add_argument("--json", help="where to write all figures")
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    with harness.folder() as scratch:
        figures = table(Home(scratch))
    show(figures)
    if OPTIONS.json:
        Path(OPTIONS.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    OPTIONS = parse()
    if OPTIONS.kind:
        train(OPTIONS.images, OPTIONS.kind, OPTIONS.threads, OPTIONS.seconds)
    else:
        os.environ["PENSTOCK_BIN"] = str(Path(OPTIONS.build).resolve() / "bin")
        import harness  # looks at PENSTOCK_BIN
        main()
