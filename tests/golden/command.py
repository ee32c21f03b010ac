"""The command from outside: what `--json` has of every subcommand, and exit codes of the command and of the daemon."""
import json
import os
import subprocess

import datasets
from golden import UPDATE, compare, compare_kinds, harness, joined, kinds
from harness import LIMIT, Daemon, Link, folder, run_tests, tool

RECIPE = ["-b", "4", "--image-size", "16"]
# Kept whole with --update: what is seen in each of so many runs, so that nothing depends on time.
RUNS = 3
STATE = {"version": 1, "fingerprint": "0" * 16, "order": "0" * 16, "transform": "0" * 16, "seed": 0, "epoch": 0, "position": 4}

ORDER = "b76a6357cd610f71"  # of a shuffled stream with seed 0, in every state that was ever written


def environment(home):
    (home / "tmp").mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {**kept, "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home / "state"), "TMPDIR": str(home / "tmp"),
            "PENSTOCK_SOCKET": str(home / "nobody.sock")}


def run(home, *words, program="penstock"):
    return subprocess.run([tool(program), *map(str, words)], env=environment(home), capture_output=True, text=True, timeout=LIMIT,
                          stdin=subprocess.DEVNULL, cwd=home)


def prepare(home):
    """The datasets, a broken image, a folder with one, and states: one of `photos`, and one of another order."""
    datasets.make(home)
    whole = next(iter(sorted((home / "photos").rglob("*.jpg"))))
    (home / "broken/a").mkdir(parents=True)
    (home / "broken/a/whole.jpg").write_bytes(whole.read_bytes())
    (home / "broken/a/cut.jpg").write_bytes(whole.read_bytes()[:400])
    (home / "empty").mkdir()
    (home / "text.txt").write_text("no image\n")
    (home / "bad.yaml").write_text("memory: none\n")
    (home / "good.yaml").write_text("memory: 64M\n")
    told = json.loads(run(home, "plan", "photos", "--json", *RECIPE).stdout)
    (home / "whole.jpg").write_bytes(whole.read_bytes())
    (home / "state.json").write_text(json.dumps({**STATE, "fingerprint": told["fingerprint"]}))
    (home / "fits.json").write_text(json.dumps({**STATE, "fingerprint": told["fingerprint"], "order": ORDER}))


# ---- keys of --json ----

ALONE = {
    "bench": ["bench", "photos", *RECIPE, "--seconds", "0.2"],
    "bench --yardstick": ["bench", "photos", *RECIPE, "--seconds", "0.2", "--yardstick"],
    "bench --sweep": ["bench", "photos", *RECIPE, "--seconds", "0.2", "--sweep", "threads=1,2"],
    "bench --accelerators": ["bench", "photos", *RECIPE, "--seconds", "0.6", "--accelerators", "1"],
    "cache": ["cache", "--cache-dir", "."],
    "cache --objects": ["cache", "show", "--objects", "--cache-dir", "."],
    "cache verify": ["cache", "verify", "--cache-dir", "."],
    "cache clear": ["cache", "clear", "--cache-dir", "."],
    "check": ["check", "photos"],
    "check tars": ["check", "tars/shard-000000.tar"],
    "check --index-only": ["check", "photos", "--index-only"],
    "check broken": ["check", "broken"],
    "decode": ["decode", "whole.jpg"],
    "decode compare": ["decode", "whole.jpg", "-d", "compare"],
    "decode broken": ["decode", "broken/a/cut.jpg", "text.txt"],
    "pack": ["pack", "photos", "packed-%06d.tar"],
    "plan": ["plan", "photos", *RECIPE, "-W", "2", "--epochs", "2"],
    "plan --state": ["plan", "photos", *RECIPE, "--state", "fits.json"],
    "replay": ["replay", "photos", *RECIPE],
    "show": ["show", "photos", *RECIPE, "-o", "sheet.png"],
    "show --sample": ["show", "photos", *RECIPE, "--sample", "1", "-o", "sample.png"],
    "state": ["state", "state.json"],
    "state SOURCE": ["state", "fits.json", "photos", *RECIPE],
    "state of another": ["state", "state.json", "photos", *RECIPE],
}


def documents(home):
    """{name: kinds} of all subcommands, of one run each."""
    found = {}
    for path in home.glob("packed*"):
        path.unlink()
    for name, words in ALONE.items():
        done = run(home, *words, "--json")
        assert done.stdout.startswith("{"), f"{name}: {done.returncode} {done.stderr}"
        found[name] = kinds(json.loads(done.stdout))
    with Daemon(home, "--threads", "1") as daemon, Link(daemon.socket) as link:
        stream = link.open(source=home / "photos", batch_size=4, image_size=16, group="g")
        stream.read(3)
        for name, words in {"status": ["status"], "top": ["top", "-n", "1"]}.items():
            found[name] = kinds(json.loads(run(home, *words, "--json", "--socket", daemon.socket).stdout))
        stream.close()
        daemon.batches(source=home / "photos", batch_size=4, image_size=16, epochs=1)
    found["why"] = kinds(json.loads(run(home, "why", "--all", "--json", "--folder", home / "state/penstock").stdout))
    return found


def of_all(several):
    """What each of several runs has."""
    first, *others = several
    return {name: {path: joined(*(one[name][path] for one in several)) for path in first[name]
                   if all(path in other[name] for other in others)} for name in first}


def test_keys_of_json():
    with folder() as home:
        prepare(home)
        compare_kinds("json", of_all([documents(home) for _ in range(RUNS if UPDATE else 1)]))


# ---- exit codes ----

COMMANDS = """
penstock
penstock --help
penstock --version
penstock help bench
penstock nonsense
penstock benhc
penstock check
penstock check photos
penstock check photos --nonsense
penstock check photos --threads 0
penstock check photos --threads many
penstock check broken
penstock check empty
penstock check nowhere
penstock check photos --labels cls
penstock decode
penstock decode whole.jpg
penstock decode whole.jpg nowhere.jpg
penstock decode broken/a/cut.jpg
penstock decode text.txt
penstock decode whole.jpg --crop 1,2
penstock decode whole.jpg --crop 0,0,9999,9999
penstock decode whole.jpg -o nowhere/whole.png
penstock pack photos
penstock pack photos out-%06d.tar --quality 0
penstock pack photos out-%06d.tar
penstock pack broken out-broken-%06d.tar
penstock plan
penstock plan photos
penstock plan photos -b 0
penstock plan photos -b 100
penstock plan photos -b 4 --state state.json
penstock plan photos -b 4 --state fits.json
penstock plan photos --state nowhere.json
penstock plan photos --image-size 5000
penstock plan photos --transforms [Nonsense]
penstock replay photos --batch-size 4
penstock replay photos --batch-size 4 --batch 100
penstock replay photos --batch-size 4 --row 9
penstock replay photos --index 999 --crop 0,0,8,8
penstock replay broken --index 0 --crop 0,0,8,8
penstock replay photos --rank 2 --world-size 2
penstock show photos --batch-size 4 --image-size 16 -o sheet.png
penstock show photos --batch-size 4 --batch 100
penstock show photos --batch-size 4 -o nowhere/sheet.png
penstock show stream:none
penstock state
penstock state state.json
penstock state nowhere.json
penstock state text.txt
penstock state state.json photos
penstock state fits.json photos -b 4
penstock state state.json nowhere
penstock status
penstock status extra
penstock stop
penstock top -n 1
penstock top --interval 0
penstock why --folder HOME/empty
penstock why --folder nowhere
penstock why nonsense
penstock bench
penstock bench nowhere
penstock bench photos --batch-size 1000
penstock bench photos --memory 1M
penstock bench stream:none
penstockd --help
penstockd --version
penstockd --nonsense
penstockd extra
penstockd --check-config
penstockd --check-config --config good.yaml
penstockd --check-config --config bad.yaml
penstockd --config bad.yaml
penstockd --config nowhere.yaml
penstockd --threads 0
penstockd --memory 1
penstockd --log-level loud
penstockd --io sideways
penstockd --socket nowhere/at/all.sock --http off --recorder off
"""


def test_exit_codes():
    """0 done; 1 failed, or broken images found; 2 usage or configuration."""
    found = {}
    with folder() as home:
        prepare(home)
        for line in COMMANDS.strip().splitlines():
            program, *words = line.split()
            found[line] = run(home, *(word.replace("HOME", str(home)) for word in words), program=program).returncode
    compare("exits", found)


def test_a_daemon_that_is_stopped():
    """By the command and by a signal: 0. A second one at the same socket: not 0."""
    with folder() as home:
        with Daemon(home, "--threads", "1") as daemon:
            second = run(home, "--socket", daemon.socket, "--recorder", "off", program="penstockd")
            assert second.returncode == 1, second
            assert run(home, "stop", "--socket", daemon.socket).returncode == 0
            assert daemon.process.wait(timeout=LIMIT) == 0
        with Daemon(home, "--threads", "1"):
            pass


if __name__ == "__main__":
    run_tests(globals())
