"""Trainers on libpenstock with reconnect_ms go on by themselves when their daemon is SIGKILLed and another one is started: one
process from beginning to end, with the undisturbed row."""
import contextlib
import os
import signal
import socket
import subprocess
import time

from faults import (NIGHTLY, SLOW, TINY, FaultTrainer, check_rows, killed_after, quantile, say, seeded, shares, tiny_dataset,
                    undisturbed)
from harness import Daemon, folder, penstock_processes, run_tests, tool, wait_until

ROUNDS = 60 if NIGHTLY else 8 if SLOW == 1 else 3
PATIENCE_MS = int(20000 * SLOW)


class Reader:
    """The rows that check_rows compares."""

    def __init__(self, definition, trainer):
        self.definition, self.trainer, self.row = definition, trainer, []


def count(trainer):
    return len(trainer.notes("batch"))


def next_batch_after(trainers, since):
    """Seconds from `since` to the first batch that each was given after it."""
    def later(trainer):
        return next((n.time for n in trainer.notes("given") if n.time > since), None)
    return [wait_until(lambda t=t: later(t), "the trainer to go on") - since for t in trainers]


def run_rounds(home, name, rounds):
    random = seeded(f"reconnect/{name}")
    definitions = shares({"source": home / "images", **TINY}, name)
    daemon = Daemon(home, "--threads", "2")
    readers = [Reader(d, FaultTrainer(home, daemon.socket, {**d, "reconnect_ms": PATIENCE_MS}, mode="lib", batches=1, linger=1, sleep_us=500,
                                      hold=random.randint(0, 2))) for d in definitions]
    trainers = [r.trainer for r in readers]
    seconds = []
    with killed_after(trainers):
        for _ in range(rounds):
            for trainer in trainers:
                trainer.wait_note("batch")
            time.sleep(random.uniform(0, 0.05))
            daemon.stop(signal.SIGKILL)
            time.sleep(random.choice([0, 0, random.uniform(0, 0.2)]))
            since = time.monotonic()
            daemon = Daemon(home, "--threads", "2")
            seconds += next_batch_after(trainers, since)
        for trainer in trainers:
            trainer.enough()
        for reader in readers:
            reader.row = reader.trainer.finish()
        daemon.stop(signal.SIGKILL)
        batches = check_rows(home, readers)
    say(f"{name}: {rounds} daemons killed under the same trainers; {batches} batches, none lost or repeated; from the start of the next daemon to the "
        f"next batch: median {quantile(seconds, 0.5):.2f} s, most {max(seconds):.2f} s")


def run_named(name):
    with folder() as home:
        tiny_dataset(home)
        run_rounds(home, name, ROUNDS)


def test_private():
    run_named("private")


def test_share_all():
    run_named("all")


def test_split():
    run_named("split")


def daemons_of(home):
    """Pids of the private daemons that serve below `home`."""
    pids = []
    for pid, name in penstock_processes():
        with contextlib.suppress(OSError):
            if name == "penstockd" and str(home).encode() in open(f"/proc/{pid}/cmdline", "rb").read():
                pids.append(pid)
    return pids


def listens(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(path) == 0


def test_private_daemon():
    """The trainers start the next one themselves, together no more than one."""
    random = seeded("reconnect/private daemon")
    with folder() as home:
        tiny_dataset(home)
        (home / "run").mkdir(mode=0o700)
        path = str(home / "run/s.sock")
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache"), "PENSTOCKD": tool("penstockd")}
        definitions = [{"source": home / "images", **TINY, "seed": seed} for seed in range(2)]
        trainers = [FaultTrainer(home, path, {**d, "private_daemon": 1, "reconnect_ms": PATIENCE_MS}, mode="lib", environment=environment, batches=1,
                                 linger=1, sleep_us=500) for d in definitions]
        with killed_after(trainers):
            for _ in range(ROUNDS // 2 + 1):
                for trainer in trainers:
                    trainer.wait_note("batch")
                time.sleep(random.uniform(0, 0.05))
                # A batch may have been on its way when the last daemon was killed: the next one need not be there yet.
                pids = wait_until(lambda: daemons_of(home), "the trainers' daemon")
                assert len(pids) == 1, f"daemons: {pids}"
                os.kill(pids[0], signal.SIGKILL)
                next_batch_after(trainers, time.monotonic())
            # That one too may have been on its way: what follows needs a daemon.
            wait_until(lambda: listens(path), "the trainers' daemon")
            for trainer in trainers:
                trainer.enough()
            rows = [t.finish() for t in trainers]
            for row, definition in zip(rows, definitions):
                assert row == undisturbed(home, path, definition, len(row)), "none lost, none repeated"
        stopped = subprocess.run([tool("penstock"), "stop"], env={**environment, "PENSTOCK_SOCKET": path}, capture_output=True, check=False)
        assert stopped.returncode == 0, stopped


def test_nobody_comes_back():
    """The time is up: the error is the same as without reconnecting, and says how long it was tried."""
    with folder() as home:
        tiny_dataset(home)
        daemon = Daemon(home)
        trainer = FaultTrainer(home, daemon.socket, {"source": home / "images", **TINY, "reconnect_ms": 700}, mode="lib", batches=10 ** 6, sleep_us=500)
        with killed_after([trainer]):
            trainer.wait_note("batch", 3)
            since = time.monotonic()
            daemon.stop(signal.SIGKILL)
            assert trainer.process.wait(timeout=60 * SLOW) == 3
            last = trainer.notes()[-1]
            assert last.kind == "error" and "reconnect_ms" in last.text, last
            assert last.time - since > 0.5, "it has tried for so long"


def named_configuration(home):
    """Of a stream "mix"."""
    lines = "".join(f"    {key}: {value}\n" for key, value in {"source": home / "images", **TINY}.items())
    return f"streams:\n  mix:\n{lines}"


def test_another_daemon_in_its_place():
    """A configuration's stream waits for its own daemon while another daemon, which does not know it, has the socket."""
    with folder() as home:
        tiny_dataset(home)
        config = named_configuration(home)
        daemon = Daemon(home, config=config)
        trainers = [FaultTrainer(home, daemon.socket, {"source": "stream:mix", "reconnect_ms": ms}, mode="lib", batches=n, linger=1 if n == 1 else 0, sleep_us=500)
                    for ms, n in ((PATIENCE_MS, 1), (900, 10 ** 6))]
        patient, hasty = trainers
        with killed_after(trainers):
            for trainer in trainers:
                trainer.wait_note("batch", 3)
            daemon.stop(signal.SIGKILL)
            stranger = Daemon(home)
            assert hasty.process.wait(timeout=60 * SLOW) == 3
            last = hasty.notes()[-1]
            for says in (f"(pid {stranger.process.pid}) does not open it", "penstock stop", "penstockd --config FILE", "no stream named mix"):
                assert last.kind == "error" and says in last.text, last
            assert patient.process.poll() is None, "it waits on"
            stranger.stop()
            since = time.monotonic()
            daemon = Daemon(home, config=config)
            next_batch_after([patient], since)
            patient.enough()
            row = patient.finish()
            assert row == undisturbed(home, daemon.socket, {"source": home / "images", **TINY}, len(row)), "none lost, none repeated"
            daemon.stop(signal.SIGKILL)


if __name__ == "__main__":
    run_tests(globals())
