"""The command, a process each time, with each of its calls failing in turn (tests/inject).

    python command.py [--all] [SCENARIO...]

What must hold: it ends by itself, with 0 and the result that it has to have, or with 1 or 2 and a sentence; files that it
leaves are whole. --all walks every call site in every way; without it a part of them, as CI has time for. Only the standard library."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("e2e", "inject")]
from harness import BIN, NIGHTLY, SLOW, Daemon, Skip, folder, promise, run_tests, tool  # noqa: E402
from inject import LIBRARY, Inject  # noqa: E402

LIMIT = 20 * SLOW
SAMPLE = 6  # sites of each scenario, in CI
ALL = NIGHTLY or "--all" in sys.argv
# Without them a command does as it always did: no site is worth a refusal.
ERRORS = {"malloc": "ENOMEM", "calloc": "ENOMEM", "realloc": "ENOMEM", "posix_memalign": "ENOMEM", "mmap": "ENOMEM", "open": "EMFILE",
          "fopen": "EMFILE", "opendir": "EMFILE", "readdir": "EIO", "read": "EIO", "pread": "EIO", "write": "ENOSPC", "pwrite": "ENOSPC",
          "fsync": "EIO", "ftruncate": "EIO", "fallocate": "ENOSPC", "rename": "EIO", "unlink": "EIO", "mkdir": "ENOSPC", "stat": "EIO",
          "close": "EIO", "fclose": "ENOSPC", "fflush": "ENOSPC", "memfd_create": "EMFILE", "socket": "EMFILE", "connect": "ECONNREFUSED",
          "sendmsg": "ENOBUFS", "recvmsg": "ENOMEM", "poll": "ENOMEM", "pthread_create": "EAGAIN", "fork": "EAGAIN", "eventfd": "EMFILE",
          "flock": "ENOLCK", "access": "EIO", "statvfs": "EIO", "uring_init": "ENOMEM", "getline": "EIO", "realpath": "ENOMEM",
          "mkostemp": "ENOSPC", "fdopen": "ENOMEM", "getcwd": "ENOENT", "sem_init": "ENOSYS", "fchmod": "EPERM"}
PIECES = {"read", "pread", "write", "pwrite"}  # can be short


class Scenario:
    """A command line and what of its outcome counts. `out`: a folder that is the run's own. `admits`: what the command says
    when files are other ones than they have to be. `reports`: a key of its JSON, which says what it found when it exits with 1."""

    def __init__(self, home, name, words, keep=None, files="", code=0, again=False, admits=None, reports=None):
        self.home, self.name, self.words, self.keep, self.files, self.code, self.again = home, name, words, keep, files, code, again
        self.admits, self.reports = admits, reports

    def run(self, environment, out):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        words = [w.replace("OUT", str(out)) for w in self.words]
        env = {**os.environ, "XDG_CACHE_HOME": str(self.home / "cache"), "XDG_STATE_HOME": str(self.home / "state"),
               "HOME": str(self.home), "TMPDIR": str(out), **environment}
        try:
            done = subprocess.run([tool("penstock"), *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return None, "", "", {}
        text = done.stdout.decode("utf-8", "replace").replace(str(out), "OUT")
        made = {f.name: f.read_bytes() for f in out.iterdir() if f.is_file() and re.search(self.files, f.name)} if self.files else {}
        return done.returncode, text, done.stderr.decode("utf-8", "replace"), made

    def reported(self, text):
        try:
            return bool(self.reports and json.loads(text).get(self.reports))
        except ValueError:
            return False

    def result(self, text):
        if self.keep is None:
            return re.sub(r"(?m)^.*images/s.*\n", "", text)  # what hangs on the clock
        said = json.loads(text)
        return {key: said.get(key) for key in self.keep}


def partly_json(scenario, text):
    try:
        return scenario.result(text)
    except ValueError:
        return f"no JSON: {text[:200]}"


def judge(scenario, right, got):
    """What is wrong with a run; "" for nothing."""
    code, text, errors, made = got
    if code is None:
        return "hangs"
    if code < 0:
        return f"ended by signal {-code}: {errors[-300:]}"
    if code not in (0, 1, 2):
        return f"exit code {code}: {errors[-300:]}"
    if code == 0 and scenario.code == 0:
        if partly_json(scenario, text) != scenario.result(right[1]):
            return f"exit code 0 with another result: {text[:300]!r}; it said {errors[-200:]!r}"
        if made != right[3] and not (scenario.admits and scenario.admits in errors):
            return f"exit code 0 with other files: {sorted(made)} in place of {sorted(right[3])}"
        return ""
    if code and not errors.strip() and not (code == 1 and scenario.reported(text)):
        return f"exit code {code} without a sentence"
    if "Success" in errors or "(null)" in errors:
        return f"a bad sentence: {errors[-200:]}"
    for name, content in made.items():
        if name in right[3] and name.endswith((".tar", ".png", ".svg")) and content != right[3][name]:
            return f"exit code {code}, and {name} lies there as if it were whole"
    return ""


def ways(call):
    """(effect, persistent)"""
    error = ERRORS[call]
    return [(error, False), (error, True)] + ([("short", False)] if call in PIECES else [])


def chosen(sites):
    sites = sorted((s for s in sites if s[0] in ERRORS), key=str)
    if ALL:
        return [(call, site, way) for call, site in sites for way in ways(call)]
    step = max(1, len(sites) // SAMPLE)
    return [(call, site, ways(call)[0]) for call, site in sites[step // 2::step]]


def rule(call, site, way):
    effect, persistent = way
    return f"{call}:1{'+' if persistent else ''}@{site:x}:{effect}"


def watched(scenario, inject, out):
    inject.forget_sites()
    inject.collect()
    right = scenario.run(inject.environment(), out)
    inject.check()
    inject.collect(False)
    if right[0] != scenario.code:
        raise AssertionError(f"{scenario.name}: undisturbed it ends with {right[0]}: {right[2]}")
    return right


def torture(scenario, findings):
    """Returns how many sites and runs."""
    out, path = scenario.home / "out", scenario.home / "inject"
    inject = Inject(path, "penstock")
    right = watched(scenario, inject, out)
    plan = chosen(inject.sites())
    for call, site, way in plan:
        got = scenario.run({**inject.environment(), "PENSTOCK_INJECT": rule(call, site, way)}, out)
        wrong = judge(scenario, right, got)
        if not wrong and scenario.again and got[0] != 0:
            wrong = goes_on(scenario, right, out)
        if wrong:
            where = inject.failures()[-1:] or ["nothing"]
            findings.append(f"{scenario.name}: {rule(call, site, way)}: {wrong}\n    {where[0]}")
            print(findings[-1], flush=True)
    sites = len({p[1] for p in plan})
    inject.close()
    return sites, len(plan)


def goes_on(scenario, right, out):
    """The same command again, over what lies there, with nothing failing."""
    kept = scenario.home / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    out.rename(kept)
    again = Scenario(scenario.home, scenario.name, [w.replace("OUT", str(kept)) for w in scenario.words], scenario.keep, "")
    code, _, errors, _ = again.run({}, out)
    made = {f.name: f.read_bytes() for f in kept.iterdir() if f.is_file() and re.search(scenario.files, f.name)}
    if code != 0 or made != right[3]:
        return f"the same command again: {code}, {sorted(made)} in place of {sorted(right[3])}: {errors[-300:]}"
    return ""


# ---- the scenarios ----

STATE = '{"version":1,"fingerprint":"%s","seed":"0","order":"%s","transform":"%s","epoch":1,"position":4}'


def make(home):
    subprocess.run([tool("make_dataset"), str(home / "set"), "--per-class", "2", "--max-side", "220"], check=True, capture_output=True)
    subprocess.run([tool("make_dataset"), str(home / "tars"), "--tars", "--per-class", "2", "--max-side", "220"], check=True,
                   capture_output=True)


def offline(home):
    source, image = str(home / "set"), str(sorted((home / "set").rglob("*.jpg"))[0])
    tar = str(home / "tars/shard-000000.tar")
    small = ["--batch-size", "2", "--image-size", "32"]
    yield Scenario(home, "check", ["check", "--json", "--threads", "2", tar], ["samples", "broken"], reports="broken")
    yield Scenario(home, "decode", ["decode", image, "-o", "OUT/x.png"], files=r"\.png$")
    yield Scenario(home, "decode_json", ["decode", "--json", image])
    yield Scenario(home, "plan", ["plan", source, "--world-size", "2", "--json", *small])
    yield Scenario(home, "replay", ["replay", source, *small])
    yield Scenario(home, "replay_json", ["replay", tar, "--json", *small])
    yield Scenario(home, "show", ["show", source, "-n", "4", "-o", "OUT/x.png", *small], files=r"\.png$", admits="left blank")
    yield Scenario(home, "pack", ["pack", source, "OUT/p-%02d.tar", "--threads", "2", "--shard-size", "1M"], files=r"\.tar$", again=True)


def test_offline():
    with folder() as home:
        make(home)
        walk(offline(home), "")


KEPT = ["records"]  # of a record's story


def test_daemon():
    """What asks a daemon, and what reads its flight recorder."""
    with folder() as home:
        make(home)
        with Daemon(home) as daemon:
            socket = ["--socket", str(daemon.socket)]
            walk([Scenario(home, "status", ["status", "--json", *socket], ["pid", "version", "socket"]),
                  Scenario(home, "top", ["top", "--json", "-n", "1", *socket], ["pid", "version", "socket"])], "with a daemon")
        rings = [str(p) for p in home.rglob("*.ring")]
        walk([Scenario(home, "why", ["why", rings[0], "--json"], KEPT)] if rings else [], "afterwards")


def walk(scenarios, words):
    if not LIBRARY.exists():
        raise Skip("libpenstock_inject.so is not built: a sanitizer's build")
    if ALL:
        signal.alarm(0)  # CTest's limit is the one that counts
    findings, sites, runs, began = [], 0, 0, time.monotonic()
    for scenario in scenarios:
        if NAMES and scenario.name not in NAMES:
            continue
        n, m = torture(scenario, findings)
        sites, runs = sites + n, runs + m
        print(f"{scenario.name}: {n} sites, {m} runs, {len(findings)} findings so far", flush=True)
    if findings:
        raise AssertionError(f"{len(findings)} findings")
    promise(f"command {words}: {sites} call sites, {runs} runs, {time.monotonic() - began:.0f} s")


# ---- output that cannot be written, streams that were not given ----

def test_full_and_closed():
    """Every form of output, onto a full disk, into nowhere and into a pipe that nobody reads: never 0."""
    with folder() as home:
        make(home)
        forms = [s.words for s in offline(home)] + [["check", "--threads", "2", str(home / "set")], ["--help"], ["--version"],
                 ["decode", str(sorted((home / "set").rglob("*.jpg"))[0])], ["plan", str(home / "set"), "--batch-size", "2"]]
        for words in forms:
            for end in ("full", "closed", "broken"):
                code, errors = unwritten(home, words, end)
                assert code in (1, 2), f"{words} with stdout {end}: {code}: {errors}"
                assert end == "broken" or errors.strip(), f"{words} with stdout {end}: no sentence"


def unwritten(home, words, end):
    out = home / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    close = "exec 1>&-; " if end == "closed" else ""
    done = subprocess.run(["bash", "-c", close + 'exec "$0" "$@"', tool("penstock"), *[w.replace("OUT", str(out)) for w in words]],
                          stdout={"full": full, "closed": full, "broken": writer}[end], stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(home / "cache")}, timeout=LIMIT)
    os.close(writer)
    os.close(full)
    return done.returncode, done.stderr


def test_without_streams():
    """Started without standard streams: what is printed gets into no file."""
    with folder() as home:
        make(home)
        broken = sorted((home / "set").rglob("*.jpg"))[1]
        broken.write_bytes(broken.read_bytes()[:300])  # so that there is something to print
        shards = []
        for number, close in enumerate(["", "0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"]):
            out = home / f"o{number}"
            out.mkdir()
            subprocess.run(["bash", "-c", f'exec "$0" "$@" {close}', tool("penstock"), "pack", str(home / "set"), f"{out}/p-%02d.tar"],
                           env={**os.environ, "XDG_CACHE_HOME": str(home / "cache")}, capture_output=True, timeout=LIMIT)
            shards.append({f.name: f.read_bytes() for f in out.iterdir()})
            assert shards[-1] == shards[0] and "p-00.tar" in shards[0], f"{close}: {sorted(shards[-1])}"


NAMES = [w for w in sys.argv[1:] if not w.startswith("--")]

if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    run_tests(globals())
