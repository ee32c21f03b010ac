#!/usr/bin/env python3
"""Measures every figure of README and docs/evidence anew, and writes tables, speed.csv and the chart. scripts/measure calls this.

    measure.py --list                    name, page, minutes and needs of each part
    measure.py --images FOLDER [OPTIONS] [NAME...]
    measure.py --write RESULT...         writes results that an earlier run has left in BUILD/measured

    --images FOLDER      JPEGs in one flat folder; the class of an image is its name's part before the first "_"
    --build FOLDER       a Release build of this tree (default: build/release); its programs are brought up to date first
    --yardstick PROGRAM  what rates are divided by (default: BUILD/bin/yardstick)
    --torch PYTHON       has torch, torchvision and NumPy: DataLoader beside the loader, PNG, multi-crop
    --containers PYTHON, --tensorflow PYTHON, --remote PYTHON
                         have what tests/bench/containers.py and tests/bench/remote.py name
    --peers COMMAND      a shell command that measures other loaders with the images of the environment's IMAGES, and prints their rates
                         (docs/make/measured.py, peer_rates); it runs --peer-rounds times (default: 3)
    --dirty              also with changes that are not committed; the pages then say so
    --short              one round of half a second each; prints what it would write, and writes nothing

A part is measured by a program of tests/bench, whose tables go to the part's page into the section of this machine
(docs/make/measured.py). Sections of other machines stay. The result is also kept in BUILD/measured/NAME.json. A part that needs a
Python or a command which was not given is left out, with a word, unless it is named: then that is an error. When a program fails, nothing
is written of its part, the others go on, and the exit status is 1. A bar that is missed is no failure: the table says so."""
import argparse
import datetime
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/make"))
import measured  # noqa: E402

EVIDENCE = "docs/evidence/measured/"
TARGETS = ("penstockd", "penstock", "yardstick", "ceiling", "ceiling_daemon", "hostile_bench", "dump_batches", "make_dataset", "make_index",
           "fault_trainer")
BUSY = 5  # percent of the processors' time that other work may take on a machine that is called idle
SHORT = {"--rounds": "1", "--seconds": "0.5", "--kills": "2", "--kernels": "chosen", "--samples": "2000", "--index": "2000",
         "--repeat": "2"}


class Refused(Exception):
    """Nothing was measured; the words say why."""


class Part:
    """A program whose output is a part of a page. Words in capitals are replaced: BUILD, IMAGES, YARDSTICK, JSON and the Pythons."""

    def __init__(self, name, page, minutes, command, needs=(), optional=(), heading=False):
        self.name, self.page, self.minutes, self.command = name, page, minutes, command.split()
        self.needs, self.optional, self.heading = needs, optional, heading


PARTS = [
    Part("rates", EVIDENCE + "decode.md", 15, "tests/bench/rates.py BUILD IMAGES --yardstick YARDSTICK --rounds 5 --seconds 3 --json JSON",
         needs=("pillow",), optional=("torch",), heading=True),
    Part("speed", "docs/evidence/peers.md", 12, "", needs=("peers",)),
    Part("main-job", EVIDENCE + "main-job.md", 3, "tests/bench/main_job.py BUILD IMAGES --rounds 5 --seconds 4 --samples 1000000 --json JSON",
         heading=True),
    Part("python", EVIDENCE + "python.md", 7, "tests/bench/python_loader.py BUILD IMAGES --rounds 5 --seconds 3 --json JSON",
         needs=("numpy",), optional=("torch",)),
    Part("transforms", EVIDENCE + "transforms.md", 10, "tests/bench/transforms.py BUILD IMAGES --rounds 7 --seconds 3 --json JSON"),
    Part("containers", EVIDENCE + "containers.md", 15,
         "tests/bench/containers.py BUILD IMAGES --python CONTAINERS --rounds 5 --seconds 2 --json JSON",
         needs=("containers",), optional=("tensorflow",)),
    Part("index", EVIDENCE + "containers.md", 15,
         "tests/bench/containers.py BUILD IMAGES --python CONTAINERS --index 1000000 --rounds 3 --json JSON",
         needs=("containers",), optional=("tensorflow",)),
    Part("image-types", EVIDENCE + "containers.md", 6, "tests/bench/image_types.py BUILD IMAGES --rounds 5", needs=("pillow",)),
    Part("multicrop", EVIDENCE + "ports.md", 6, "tests/bench/multicrop.py BUILD IMAGES --torch TORCH --rounds 5 --seconds 4 --json JSON",
         needs=("torch",)),
    Part("groups", EVIDENCE + "groups.md", 4, "tests/bench/groups.py BUILD IMAGES --rounds 3 --seconds 3 --kills 60 --json JSON"),
    Part("observe", EVIDENCE + "observe.md", 4, "tests/bench/observe.py BUILD IMAGES --rounds 16 --seconds 3 --json JSON"),
    Part("remote", EVIDENCE + "remote.md", 20,
         "tests/bench/remote.py BUILD IMAGES --only http,s3,https,bytes,requests,disturbed,gone --rounds 3 --seconds 4 --repeat 16 --long "
         "--json JSON", needs=("numpy",), heading=True),
    Part("remote-peers", EVIDENCE + "remote.md", 10,
         "tests/bench/remote.py BUILD IMAGES --only peers --python REMOTE --rounds 3 --seconds 4 --json JSON", needs=("remote",)),
    Part("hostile", EVIDENCE + "hostile.md", 1, "BUILD/bin/hostile_bench"),
    Part("ceiling", EVIDENCE + "ceiling.md", 6, "tests/bench/ceiling.py BUILD IMAGES --samples 20000 --seconds 4 --json JSON",
         heading=True),
]
HINTS = {
    "pillow": "a Python with Pillow (scripts/install-deps makes .venv)", "numpy": "a Python with NumPy (scripts/install-deps makes .venv)",
    "torch": "--torch PYTHON", "containers": "--containers PYTHON", "tensorflow": "--tensorflow PYTHON", "remote": "--remote PYTHON",
    "peers": "--peers COMMAND",
}


# ---- the machine


def cpu_fields():
    """The first processor's fields of /proc/cpuinfo."""
    first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


def vectors(flags):
    if "avx512f" in flags:
        more = [name for flag, name in (("avx512_vbmi", "VBMI"), ("avx512_vnni", "VNNI")) if flag in flags]
        return "AVX-512" + (f" with {' and '.join(more)}" if more else "")
    return "AVX2, no AVX-512" if "avx2" in flags else "no AVX2"


def other_work(seconds=2.0):
    """Percent of the processors' time that other processes take just now."""
    def times():
        fields = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]
    (total, idle), _ = times(), time.sleep(seconds)
    total_then, idle_then = times()
    return 100 * (1 - (idle_then - idle) / max(1, total_then - total))


def machine_of():
    fields = cpu_fields()
    cores = len(os.sched_getaffinity(0))
    name = fields.get("model name") or platform.machine()
    model = f"{name} (family {fields['cpu family']}, model {fields['model']})" if "cpu family" in fields else name
    busy = other_work()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {"key": f"{model}, {cores} cores", "model": model, "cores": cores, "vectors": vectors(fields.get("flags", "").split()),
            "kernel": ".".join(platform.release().split(".")[:2]), "memory_gib": round(memory),
            "load": "otherwise idle" if busy < BUSY else f"while other work took {busy:.0f} % of the processors' time"}


# ---- what must hold first


def commit_of(dirty):
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout.strip()
    try:
        # What this program itself writes is nothing that it measures.
        changes = git("status", "--porcelain", "--", ".", ":!docs/evidence", ":!docs/pictures", ":!README.md")
        commit = git("rev-parse", "--short=12", "HEAD")
    except (OSError, subprocess.CalledProcessError) as fault:
        if not dirty:
            raise Refused("this copy has no history, so no commit names what would be measured: take a clone, or say --dirty") from fault
        return "unknown"
    if changes and not dirty:
        raise Refused("the tree has changes that are not committed, so no commit names what would be measured: commit them, or say --dirty")
    return commit + (" with changes" if changes else "")


def check_build(build):
    cache = build / "CMakeCache.txt"
    if not cache.exists():
        raise Refused(f"{build} is no build: run cmake --preset release")
    settings = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(encoding="utf-8"), re.MULTILINE))
    if settings.get("CMAKE_BUILD_TYPE") != "Release":
        raise Refused(f"{build} is a build of type {settings.get('CMAKE_BUILD_TYPE') or 'none'}: figures are those of Release builds")
    if settings.get("PENSTOCK_SANITIZE") or settings.get("PENSTOCK_COVERAGE") == "ON":
        raise Refused(f"{build} is a build with sanitizers or coverage: figures are those of builds without")


def check_images(images):
    if not images:
        raise Refused("no images: name a folder of JPEGs with --images")
    if not Path(images).is_dir():
        raise Refused(f"--images {images}: there is no such folder")
    count = sum(path.suffix.lower() in (".jpg", ".jpeg") for path in Path(images).iterdir())
    if not count:
        raise Refused(f"--images {images}: no JPEG lies in the folder itself")
    return count


def check_yardstick(program):
    if not os.access(program, os.X_OK) or os.path.isdir(program):
        raise Refused(f"there is no yardstick {program}: build the target yardstick, or name a program with --yardstick")


def given(options, need):
    if need in ("pillow", "numpy"):
        return importlib.util.find_spec({"pillow": "PIL"}.get(need, need)) is not None
    return bool(getattr(options, need))


def choose(options):
    """The parts that are asked for, and can be measured with what was given."""
    names = [part.name for part in PARTS]
    for name in options.names:
        if name not in names:
            raise Refused(f"{name}: there is no such part; --list has the names")
    chosen = []
    for part in PARTS:
        lacks = [HINTS[need] for need in part.needs if not given(options, need)]
        if options.names and part.name not in options.names:
            continue
        if lacks and options.names:
            raise Refused(f"{part.name} needs {' and '.join(lacks)}")
        if lacks:
            print(f"{part.name}: left out; it needs {' and '.join(lacks)}", flush=True)
        else:
            chosen.append(part)
    return chosen


# ---- measuring


def command_of(part, options, kept):
    """(what runs, what the page shows)."""
    words = list(part.command)
    for name in part.optional:
        if given(options, name):
            words += [f"--{name}", name.upper()]
    if options.short:
        words = [SHORT.get(before, word) for before, word in zip(["", *words], words) if word != "--long"]
        words += ["--kernels", "chosen"] if part.name == "rates" else []
    values = {"IMAGES": options.images, "YARDSTICK": options.yardstick, "JSON": str(kept),
              **{name.upper(): getattr(options, name) for name in ("torch", "containers", "tensorflow", "remote")}}
    ran = [values.get(word, word).replace("BUILD", str(options.build), 1) for word in words]
    shown = " ".join("PYTHON" if word.lower() in ("torch", "containers", "tensorflow", "remote") else word for word in words)
    shown = re.sub(r" --json JSON| --yardstick YARDSTICK" if options.own_yardstick else r" --json JSON", "", shown)
    if ran[0].endswith(".py"):
        ran = [sys.executable, str(ROOT / ran[0]), *ran[1:]]
    return ran, shown.replace("BUILD", "build/release", 1)


def run(command, **environment):
    """(status, standard output, standard error), the latter also passed on while it comes."""
    said = []
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        def pass_on():
            for line in process.stderr:
                said.append(line)
                sys.stderr.write(line)
        thread = threading.Thread(target=pass_on)
        thread.start()
        text = process.stdout.read()
        thread.join()
    return process.returncode, text, "".join(said)


def failed(status, text, errors):
    """Programs end with 1 where a bar is missed, and say so in their table; a traceback is a failure in any case, and so is a part of
    remote.py that says in a row of its own that it ended with an error."""
    broken = "Traceback (most recent call last)" in errors or "| ended | with an error |" in text
    missed = status == 1 and "MISSED" in text
    return broken or "|" not in text or not (status == 0 or missed)


def measure_peers(options):
    """One entry for each round: rates, and the names of those that failed."""
    rounds = []
    for number in range(1 if options.short else options.peer_rounds):
        print(f"other loaders, round {number + 1}", file=sys.stderr, flush=True)
        status, text, _ = run(["sh", "-c", options.peers], IMAGES=options.images)
        rates, broken = measured.peer_rates(text)
        if status or not rates:
            raise RuntimeError(f"--peers ended with {status} and gave {len(rates)} rates:\n{text[-2000:]}")
        rounds.append({"rates": rates, "failed": broken})
    return rounds


def rates_of_this_commit(folder, result):
    """The figures of part rates, which the chart is made of: measured by this commit on this machine."""
    path = folder / "rates.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if not found or any(found[key] != result[key] for key in ("commit", "short")) or found["machine"]["key"] != result["machine"]["key"]:
        raise RuntimeError("the chart needs the part rates of the same commit and machine: measure rates as well")
    return found["figures"]


def measure(part, options, opening, folder):
    result = {**opening, "part": part.name, "page": part.page, "region": part.name, "heading": part.heading}
    if part.name == "speed":
        result["command"] = "scripts/measure rates speed --images IMAGES --peers COMMAND"
        result["figures"] = {"rates": rates_of_this_commit(folder, result), "peers": measure_peers(options)}
        result["text"] = ""
        return result
    kept = folder / f"{part.name}.figures.json"
    kept.unlink(missing_ok=True)
    command, result["command"] = command_of(part, options, kept)
    status, text, errors = run(command)
    result["text"] = text.replace(options.images, "IMAGES").replace(f"{ROOT}/", "")  # pages name no folder of this machine
    if failed(status, result["text"], errors):
        raise RuntimeError(f"{' '.join(command[1:2] or command)} ended with {status}:\n{result['text'][-2000:]}")
    result["figures"] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None
    return result


def build(options):
    print("bringing the build up to date", flush=True)
    targets = [*TARGETS, *(["penstock_python"] if (options.build / "python").exists() else [])]
    done = subprocess.run(["cmake", "--build", options.build, "--target", *targets], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode:
        raise Refused(f"the build failed:\n{done.stdout[-3000:]}")


def measure_all(options):
    count = check_images(options.images)
    check_build(options.build)
    options.own_yardstick = options.yardstick is None
    if not options.own_yardstick:
        check_yardstick(options.yardstick)
    commit = commit_of(options.dirty or options.short)
    parts = choose(options)
    build(options)
    options.yardstick = options.yardstick or str(options.build / "bin/yardstick")
    check_yardstick(options.yardstick)
    folder = options.build / "measured"
    folder.mkdir(exist_ok=True)
    machine = machine_of()
    opening = {"machine": machine, "commit": commit, "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), "images": count,
               "short": options.short}
    print(f"{machine['model']}: {measured.machine_words(machine)}\ncommit {commit}; {', '.join(part.name for part in parts)}: about "
          f"{sum(part.minutes for part in parts)} minutes", flush=True)
    broken = []
    for part in parts:
        print(f"--- {part.name}", flush=True)
        try:
            result = measure(part, options, opening, folder)
            (folder / f"{part.name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            if options.short:
                print(measured.shown(result), flush=True)
            else:
                print("wrote " + ", ".join(measured.write(ROOT, result)), flush=True)
        except (RuntimeError, ValueError, OSError) as fault:
            broken.append(part.name)
            print(f"{part.name}: {fault}", file=sys.stderr, flush=True)
    if broken:
        print(f"failed, and not written: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


def write_all(options):
    for name in options.names:
        result = json.loads(Path(name).read_text(encoding="utf-8"))
        if result["short"]:
            raise Refused(f"{name} is of a run with --short, whose figures mean nothing")
        print("wrote " + ", ".join(measured.write(options.root, result)))
    return 0


def list_parts():
    print(f"{'part':<12} {'page':<38} {'takes':>7}  needs (gains from)")
    for part in PARTS:
        needs = ", ".join([HINTS[need] for need in part.needs] + [f"({HINTS[name]})" for name in part.optional])
        print(f"{part.name:<12} {part.page:<38} {part.minutes:>3} min  {needs}".rstrip())
    print(f"{'all':<12} {'':<38} {sum(part.minutes for part in PARTS):>3} min")
    return 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    for name in ("images", "yardstick", "torch", "containers", "tensorflow", "remote", "peers"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--build", type=lambda path: Path(path).resolve(), default=ROOT / "build/release")
    parser.add_argument("--peer-rounds", type=int, default=3)
    parser.add_argument("--root", type=Path, default=ROOT, help="with --write: where docs/ and README.md lie")
    for name in ("list", "dirty", "short", "write"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    for name in ("images", "yardstick", "torch", "containers", "tensorflow", "remote"):
        if getattr(options, name) and (name == "images" or "/" in getattr(options, name)):
            setattr(options, name, os.path.abspath(getattr(options, name)))
    return options


def main():
    options = parse()
    try:
        if options.list:
            return list_parts()
        return write_all(options) if options.write else measure_all(options)
    except Refused as why:
        print(f"measure: {why}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
