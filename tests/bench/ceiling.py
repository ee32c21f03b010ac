#!/usr/bin/env python3
"""Where the threads that work one after the other would be full: fetch, the event loop and the trainer's own thread.

    tests/bench/ceiling.py BUILD IMAGES [--samples 20000] [--threads 1,2,4] [--seconds 4] [--json FILE]

The sources are the JPEGs of the folder IMAGES as a folder and as tars (16 times, through hard links, so that samples under way are
different ones), and 10,000 files of about 1 KB, as large as JPEGs of 32 x 32 pixels are, as a folder and as a tar.

The first table drives fetch alone, by the program `ceiling`: CPU time per sample of the busiest of 1, 2 and 4 rings' threads; what of it is
more than copying the same bytes out of the page cache takes; the samples per second at which all rings would be full. It also reads past
the page cache, where there is no copy.

The others drive a whole daemon and a trainer by `penstock bench`, with decoding left out: the program `ceiling_daemon` is penstockd with a
row_make_many that makes nothing. CPU time per sample of the busiest ring's thread, of a worker (its tickets, without decoding), of the
event loop and of the trainer (`next` and `release`), with as many rings as decoding threads, and how long the mutexes are held. A thread is
full at 1 second divided by its CPU time per sample; rings and workers count as often as there are. A mutex is full at 1 second divided by
the time for which it is held per sample.

These projections hold for as many cores as there are threads. CPU times hold roughly on a machine that does other work too; `measured`
samples/s do not. Mutexes are measured in runs of their own, whose CPU times are not used, and without holds of 20 µs and more, in which
the kernel had given the processor to another thread (--json says which share of all holds that is).

Exit status 1: a sample was not read."""
import argparse
import contextlib
import json
import mmap
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

COPIES = 16
SMALL = 10_000
BATCH = 256
ROOT = Path(__file__).resolve().parents[2]
LOCKS = 128  # struct lock_use of locks.h: mutex, born, times, held_ns, long_times, long_ns
LOCK = struct.Struct("=6Q")
INIT = re.compile(r"pthread_mutex_init\(&([\w>.\-]+)")


def small_files(folder, content):
    """10,000 files of 900 to 1,199 bytes, as a folder and as a tar. No JPEGs: nothing decodes them."""
    files = folder / "small" / "c0"
    files.mkdir(parents=True)
    for number in range(SMALL):
        (files / f"{number:06d}.jpg").write_bytes(content[:900 + number % 300])
    with tarfile.open(folder / "small.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(files.iterdir()):
            tar.add(path, arcname=path.name)


def sources(images, folder):
    """{name: path or pattern}; everything is made below `folder`."""
    originals = sorted(path for path in Path(images).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not originals:
        sys.exit(f"ceiling.py: no JPEGs in {images}")
    whole = folder / "originals"
    (whole / "c00").mkdir(parents=True)
    with tarfile.open(folder / "originals-00.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, path in enumerate(originals):
            (whole / "c00" / f"{number:06d}.jpg").write_bytes(path.read_bytes())
            tar.add(path, arcname=f"{number:06d}.jpg")
    for copy in range(1, COPIES):
        (whole / f"c{copy:02d}").mkdir()
        for path in (whole / "c00").iterdir():
            os.link(path, whole / f"c{copy:02d}" / path.name)
        os.link(folder / "originals-00.tar", folder / f"originals-{copy:02d}.tar")
    small_files(folder, originals[0].read_bytes())
    return {
        "originals, folder": str(whole),
        "originals, tars": f"{folder}/originals-{{00..{COPIES - 1:02d}}}.tar",
        "32-pixel files, folder": str(folder / "small"),
        "32-pixel files, tar": str(folder / "small.tar"),
    }


# --- fetch alone ---


def run(build, spec, rings, io, samples):
    done = subprocess.run([f"{build}/bin/ceiling", spec, str(rings), io, str(samples)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"ceiling.py: `ceiling {spec} {rings} {io}` ended with {done.returncode}")
    return json.loads(done.stdout)


def fetch(build, name, spec, io, rings, samples):
    got = run(build, spec, rings, io, samples)
    busiest = max(thread["cpu_us_per_sample"] for thread in got["threads"])
    # The ring with the largest part of the samples is full first.
    share = max(thread["samples"] for thread in got["threads"]) / got["samples"]
    result = {
        "source": name,
        "io": io,
        "rings": got["lanes"],
        "mean_bytes": got["mean_bytes"],
        "cpu_us": busiest,
        "copy_us": got["copy_us_per_sample"],
        "beyond_us": busiest - got["copy_us_per_sample"],
        "share": share,
        "full_per_s": 1e6 / busiest / share,
        "measured_per_s": got["samples_per_s"],
    }
    print(f"| {name}{', past the page cache' if io == 'direct' else ''} | {result['rings']} | {busiest:.1f} | {result['copy_us']:.1f} | "
          f"{result['beyond_us']:.1f} | {result['full_per_s']:,.0f} | {result['measured_per_s']:,.0f} |", flush=True)
    return result


# --- fetch, order and hand-over ---


def processes(parent):
    """{pid: name} of the processes that `parent` has started."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = path.read_text()
            if int(text[text.rindex(")") + 2:].split()[1]) == parent:
                found[int(path.parent.name)] = text[text.index("(") + 1:text.rindex(")")]
    return found


def thread_times(pid):
    """[(name, CPU us)] of the threads of a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found.append((task.name, (task / "comm").read_text().strip(), int((task / "schedstat").read_text().split()[0]) / 1000))
    return found


class Board:
    """What ceiling_daemon counts."""

    def __init__(self, path):
        path.write_bytes(bytes(8 + LOCKS * LOCK.size))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def rows(self):
        return struct.unpack_from("=Q", self.memory)[0]

    def locks(self):
        """{(address, where it was made): (times, held ns, times that were long), the first two without the long ones}"""
        found = {}
        for i in range(LOCKS):
            mutex, born, times, held, long_times, long_held = LOCK.unpack_from(self.memory, 8 + i * LOCK.size)
            if mutex:
                found[mutex, born] = (times - long_times, held - long_held, long_times)
        return found


def lock_names(program, places):
    """{place: what the source calls the mutex that was made there}"""
    text = "\n".join(f"{place - 1:#x}" for place in places)
    told = subprocess.run(["addr2line", "-e", program], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    names = {}
    for place, line in zip(places, told):
        path, _, number = line.split(" ")[0].rpartition(":")
        # A compiler cache may name the file in another checkout.
        path = ROOT / path[path.find("daemon/"):]
        match = INIT.search(path.read_text(encoding="utf-8").splitlines()[int(number) - 1]) if path.is_file() else None
        names[place] = match.group(1).replace("->", ".") if match else line
    return names


@contextlib.contextmanager
def bench(build, board, spec, threads, seconds, locks):
    """A daemon and a trainer, once batches flow: (pid of the daemon, pid of the trainer)."""
    environment = dict(os.environ, PENSTOCKD=f"{build}/bin/ceiling_daemon", CEILING_BOARD=str(board), CEILING_LANES=str(threads))
    if locks:
        environment["CEILING_LOCKS"] = "1"
    command = [f"{build}/bin/penstock", "bench", spec, "--batch-size", str(BATCH), "--image-size", "32", "--threads", str(threads),
               "--seconds", str(seconds + 60), "--io", "buffered", "--cache", "off", "--prefetch", "8"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            while True:
                found = processes(process.pid)
                daemons = [pid for pid, name in found.items() if name.startswith("ceiling") or name == "penstock-serve"]
                trainers = [pid for pid in found if pid not in daemons]
                if daemons and trainers:
                    break
                if time.monotonic() > deadline or process.poll() is not None:
                    sys.exit(f"ceiling.py: `{' '.join(command)}` does not run")
                time.sleep(0.05)
            yield daemons[0], trainers[0]
        finally:
            process.terminate()


def window(board, daemon, trainer, seconds):
    """Rows, and CPU us by thread, of some seconds in which batches flow."""
    deadline = time.monotonic() + 60
    while board.rows() < 20 * BATCH:
        if time.monotonic() > deadline:
            sys.exit("ceiling.py: no batches for a minute")
        time.sleep(0.05)
    time.sleep(1)
    taken = []
    for _ in range(2):
        times = {task: (name, us) for task, name, us in thread_times(daemon)}
        times.update({task: ("trainer", us) for task, _, us in thread_times(trainer)})
        taken.append((time.monotonic(), board.rows(), times, board.locks()))
        time.sleep(seconds)
    (t0, rows0, times0, locks0), (t1, rows1, times1, locks1) = taken
    used = {}
    for task, (name, us) in times1.items():
        used.setdefault(name, []).append(us - times0.get(task, (name, 0))[1])
    held = {key: [after - before for after, before in zip(locks1[key], locks0.get(key, (0, 0, 0)))] for key in locks1}
    return rows1 - rows0, t1 - t0, used, held


def hand_over(build, folder, name, spec, threads, seconds):
    path = folder / "board"
    board = Board(path)
    with bench(build, path, spec, threads, seconds, False) as (daemon, trainer):
        rows, took, used, _ = window(board, daemon, trainer, seconds)
    board = Board(path)
    with bench(build, path, spec, threads, seconds, True) as (daemon, trainer):
        locked, _, _, held = window(board, daemon, trainer, seconds)
    if not rows or not locked or "penstock-fetch" not in used or "penstock-serve" not in used:
        sys.exit(f"ceiling.py: {name}: nothing was measured (threads: {', '.join(sorted(used))})")
    names = lock_names(f"{build}/bin/ceiling_daemon", sorted({born for _, born in held if born}))
    locks, long, times = {}, 0, 0
    for (_, born), (short_times, ns, long_times) in held.items():
        key = names.get(born, "a static one")
        locks[key] = max(locks.get(key, 0), ns / locked)
        long, times = long + long_times, times + short_times + long_times
    busiest = max(locks.values())
    ring, workers = max(used["penstock-fetch"]) / rows, sum(used["penstock-work"]) / rows
    us = {"ring": ring * len(used["penstock-fetch"]), "loop": sum(used["penstock-serve"]) / rows, "worker": workers,
          "trainer": sum(used["trainer"]) / rows}
    full = {"rings": 1e6 / ring, "loop": 1e6 / us["loop"], "workers": threads * 1e6 / workers, "trainer": 1e6 / us["trainer"],
            "mutex": 1e9 / busiest}
    print(f"| {name} | {threads} | {us['ring']:.1f} | {us['worker']:.1f} | {us['loop']:.2f} | {us['trainer']:.2f} | {rows / took:,.0f} |",
          flush=True)
    return {"source": name, "threads": threads, "cpu_us": us, "full_per_s": full, "locks_ns": locks, "long_holds": long / times,
            "measured_per_s": rows / took}


def print_ceilings(results):
    """What follows from the CPU times: where each thread, and the mutex that is held for longest, would be full."""
    print("\n| full at samples/s | rings and workers | all rings | all workers | event loop | trainer | busiest mutex |")
    print("|---|---|---|---|---|---|---|")
    for result in results:
        print(f"| {result['source']} | {result['threads']} | "
              + " | ".join(f"{result['full_per_s'][part]:,.0f}" for part in ("rings", "workers", "loop", "trainer", "mutex")) + " |")
    names = sorted({name for result in results for name, ns in result["locks_ns"].items() if ns >= 20})
    print("\n| mutexes held, ns a sample | rings and workers | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for result in results:
        held = (f"{result['locks_ns'].get(name, 0):,.0f}" for name in names)
        print(f"| {result['source']} | {result['threads']} | " + " | ".join(held) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--threads", default="1,2,4")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--json")
    options = parser.parse_args()
    threads = [int(word) for word in options.threads.split(",")]
    results = {"fetch": [], "hand_over": []}
    with tempfile.TemporaryDirectory(prefix="penstock-ceiling-") as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        os.environ.pop("CEILING_LOCKS", None)
        made = sources(options.images, folder)
        print("| source | rings | CPU, µs a sample | the copy | beyond it | all rings full at samples/s | measured samples/s |")
        print("|---|---|---|---|---|---|---|")
        for source, spec in made.items():
            for io in ("buffered", "direct") if source.startswith("originals") else ("buffered",):
                results["fetch"] += [fetch(options.build, source, spec, io, rings, options.samples) for rings in threads]
        print()
        print("| CPU, µs a sample | rings and workers | ring | worker | event loop | trainer | measured samples/s |")
        print("|---|---|---|---|---|---|---|")
        for source, spec in made.items():
            results["hand_over"] += [hand_over(options.build, folder, source, spec, number, options.seconds) for number in threads]
        print_ceilings(results["hand_over"])
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
