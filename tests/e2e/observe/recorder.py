#!/usr/bin/env python3
"""The flight recorder: a real daemon, what its file holds, how trainers and the daemon itself are seen to end, and what becomes of it where
disks are full, folders are not to be used, or its process is killed."""
import contextlib
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness
from harness import Daemon, Link, Skip, folder, make_dataset, rows, run_tests, tool, wait_until

SMALL = {"batch_size": 4, "image_size": 32}
GONE = 5 * harness.SLOW  # the witness promises a second; the machine may be busy


def entries(path):
    with open(path, "rb") as file:
        if not any(file.read(64)):
            return []  # made, and not begun yet
    answer = subprocess.run([tool("ring_dump"), str(path)], capture_output=True, timeout=harness.LIMIT)
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


def files(home):
    return sorted((Path(home) / "state/penstock").glob("recorder-*.ring"))


def file_of(daemon):
    """The recorder's file, once it is written to."""
    return Path(wait_until(lambda: (daemon.status()["recorder"] or {}).get("writes") and daemon.status()["recorder"]["path"], "the file"))


def marks(path, kind, **fields):
    return [e for e in entries(path) if e["kind"] == kind and all(e[k] == v for k, v in fields.items())]


def wait_mark(path, kind, **fields):
    return wait_until(lambda: marks(path, kind, **fields), f"{kind} {fields}")[-1]


def alive(pid):
    """Not a zombie either: nobody here reaps it."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def images(home):
    return make_dataset(Path(home) / "images", per_class=8, classes=2)


def in_child(work):
    """Runs it in a forked child, whose status is what it returns; the pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        code = work()
    finally:
        os._exit(code)


def reaped(pid):
    return os.waitpid(pid, 0)[1]


# ---- what is written ----

def test_the_file_and_its_start():
    with folder() as home, Daemon(home, "--threads", 1, "--memory", "64M") as daemon:
        path = file_of(daemon)
        recorder = daemon.status()["recorder"]
        assert [path] == files(home) and path.name.endswith(f"-{daemon.process.pid}.ring")
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
        assert path.stat().st_size == 4 << 20 and path.stat().st_blocks * 512 >= 4 << 20, "its room is taken at once"
        assert recorder["dropped"] == 0 and Path(f"/proc/{recorder['pid']}/comm").read_text().strip() == "penstock-record"
        start, = marks(path, "start")
        with open(f"/proc/{daemon.process.pid}/stat") as stat:
            ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
        assert (start["pid"], start["start_ticks"], start["threads"], start["budget"]) == (daemon.process.pid, ticks, 1, 64 << 20), start
        assert start["socket"] == daemon.socket and start["parent"] == os.getpid() and "python" in start["parent_command"], start
        assert start["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert start["memory_total"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") or start["memory_total"] > 0
        # Nothing of the daemon's or of its starter's is held open by it.
        links = sorted(os.readlink(f"/proc/{recorder['pid']}/fd/{fd}") for fd in os.listdir(f"/proc/{recorder['pid']}/fd"))
        assert all(name in ("/dev/null", str(path)) or name.startswith(("socket:", "anon_inode:[pidfd]", "pidfd:")) for name in links), links
        assert sum(name.startswith("socket:") for name in links) == 1, links


def test_each_second():
    with folder() as home, Daemon(home, "--threads", 1) as daemon:
        images(home)
        path = file_of(daemon)
        with Link(daemon.socket) as link:
            stream = link.open(source=home / "images", epochs=1000, **SMALL)
            stream.read(3)
            # What comes back is in the status.
            trainer = wait_until(lambda: next((t for s in daemon.status()["streams"] for t in s["trainers"] if t["resident_bytes"]), None), "it")
            assert trainer["pid"] == os.getpid() and trainer["resident_bytes"] > 1 << 20 and "recorder.py" in trainer["command"], trainer
            assert trainer["cpu"] is None or 0 <= trainer["cpu"] < 64
            status = wait_until(lambda: s if (s := daemon.status())["machine"] and s["resident_bytes"] else None, "the machine")
            assert 0 < status["machine"]["available"] <= status["machine"]["total"] and status["resident_bytes"] > 1 << 20
            assert status["machine"]["disk_free"] > 0 and isinstance(status["gpus"], list)
            seen = wait_mark(path, "trainer", given=stream.info.slots + 3)
            assert seen["pid"] == os.getpid() and seen["held"] == stream.info.slots == seen["slots"] and 4 * seen["epoch"] + seen["batch"] == seen["given"] - 1, seen
            told = wait_mark(path, "daemon", trainers=1)
            assert told["streams"] == 1 and told["resident"] > 1 << 20 and told["budget"] >= told["reserved"] > 0, told
            assert wait_mark(path, "machine")["total"] == status["machine"]["total"]
        attach, = marks(path, "attach")
        assert attach["pid"] == os.getpid() and attach["source"] == str(home / "images") and attach["batch_size"] == 4, attach
        assert "recorder.py" in attach["command"] and attach["parent"] == os.getppid() and attach["parent_command"], attach
        leave = wait_mark(path, "leave", trainer=attach["trainer"])
        assert leave["how"] == "hung up" and leave["held"] == seen["held"] and leave["given"] == seen["given"], leave
        assert not marks(path, "exit"), "it lives"


def test_gpus():
    """By a made-up libnvidia-ml.so.1: see tests/unit/record/fake_nvml.c."""
    library = harness.BIN.parent / "fake_nvml/v3"
    if not (library / "libnvidia-ml.so.1").exists():
        raise Skip("the made-up NVML is not built")
    with folder() as home:
        images(home)
        listed = home / "listed"
        listed.write_text(f"1 77\n{os.getpid()} 123456789\n")
        with Daemon(home, "--threads", 1, environment={"LD_LIBRARY_PATH": str(library), "PENSTOCK_FAKE_NVML": str(listed)}) as daemon:
            path = file_of(daemon)
            with Link(daemon.socket) as link:
                link.open(source=home / "images", **SMALL).read(1)
                seen = wait_mark(path, "trainer", gpu_bytes=123456789)
                assert seen["pid"] == os.getpid()
                assert wait_mark(path, "gpu")["total"] == 8 << 30
                status = daemon.status()
                assert status["gpus"] == [{"device": 0, "name": "Made-up 0", "used": 0, "total": 8 << 30, "busy": 0.5}], status["gpus"]
                trainer = wait_until(lambda: next((t for s in daemon.status()["streams"] for t in s["trainers"] if t["gpu_bytes"]), None), "it")
                assert trainer["gpu_bytes"] == 123456789
        assert not daemon.text().count("NVML")


def test_limits_in_time():
    def work():
        os.execve(tool("dump_batches"), ["dump_batches", f"socket={daemon.socket}", "private=0", f"source={home}/images", "batch_size=4", "image_size=32", "epochs=1", "sleep_ms=100"],
                  {**os.environ, "SLURM_JOB_END_TIME": "1999999999"})

    with folder() as home, Daemon(home, "--threads", 1) as daemon:
        images(home)
        path = file_of(daemon)
        old = resource.getrlimit(resource.RLIMIT_CPU)
        out = os.dup(1)
        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), 1)
            resource.setrlimit(resource.RLIMIT_CPU, (3600, old[1]))
            try:
                pid = in_child(work)
            finally:
                resource.setrlimit(resource.RLIMIT_CPU, old)
                os.dup2(out, 1)
                os.close(out)
        assert reaped(pid) == 0
        attach = wait_mark(path, "attach", pid=pid)
        assert attach["deadline_s"] == 1999999999 and attach["cpu_limit_s"] == 3600, attach


# ---- how trainers end ----

def test_trainers_end():
    with folder() as home, Daemon(home, "--threads", 1) as daemon:
        images(home)
        path = file_of(daemon)
        source = home / "images"

        good = daemon.trainer(source=source, epochs=1, **SMALL)
        good.finish()
        end = wait_mark(path, "exit", pid=good.process.pid)
        assert end["status"] == 0 and end["known"] and end["oom_kills"] == 0, end
        assert wait_mark(path, "leave", trainer=end["trainer"])["how"] == "closed"

        # The recorder reads the trainer's memory while the trainer lives, however busy the machine is.
        killed = daemon.trainer(source=source, epochs=1000, sleep_ms=100, **SMALL)
        wait_mark(path, "attach", pid=killed.process.pid)
        while len(rows(killed.seen)) < 6:
            killed.line()
        killed.kill()
        end = wait_mark(path, "exit", pid=killed.process.pid)
        assert end["known"] and end["status"] == signal.SIGKILL and end["oom_kills"] == 0 and end["resident"], end
        leave = wait_mark(path, "leave", trainer=end["trainer"])
        assert leave["how"] in ("hung up", "process ended") and leave["given"] >= 5 and leave["held"] >= 1, leave
        wait_until(lambda: f"trainer {killed.process.pid} was ended by signal 9 (Killed)" in daemon.text(), "its line in the log")

        def raises():
            link = Link(daemon.socket)
            link.open(source=source, **SMALL).read(1)
            return 7
        pid = in_child(raises)
        assert os.waitstatus_to_exitcode(reaped(pid)) == 7
        end = wait_mark(path, "exit", pid=pid)
        assert end["known"] and os.waitstatus_to_exitcode(end["status"]) == 7, end

        def crashes():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            link = Link(daemon.socket)
            link.open(source=source, **SMALL).read(1)
            os.kill(os.getpid(), signal.SIGSEGV)
            time.sleep(harness.LIMIT)
        pid = in_child(crashes)
        assert os.WTERMSIG(reaped(pid)) == signal.SIGSEGV
        end = wait_mark(path, "exit", pid=pid)
        assert end["known"] and end["status"] & 0x7f == signal.SIGSEGV, end

        # One that the daemon throws out: it lives.
        with harness.Link(daemon.socket) as liar:
            liar.open(source=source, **SMALL).read(1)
            liar.send(harness.release(77, 0, 0))
            assert liar.closed()
            leave = wait_mark(path, "leave", how="expelled")
        assert leave["text"] == "protocol error", leave
        assert len({e["trainer"] for e in marks(path, "attach")}) == 5, "each has its own number"


def test_those_who_do_not_wait_for_an_answer():
    """Whoever came is told to have left and to have ended, at whatever moment that was."""
    with folder() as home, Daemon(home, "--threads", 1) as daemon:
        source = images(home)
        path = file_of(daemon)
        for _ in range(100):
            assert os.waitstatus_to_exitcode(reaped(in_child(lambda: Link(daemon.socket).open(source=source, **SMALL) and 0))) == 0
        last = in_child(lambda: Link(daemon.socket).open(source=source, **SMALL).read(1) and 0)
        wait_mark(path, "attach", pid=last)
        reaped(last)
        came = {e["trainer"] for e in marks(path, "attach")}
        for kind in ("leave", "exit"):
            wait_until(lambda: came <= {e["trainer"] for e in marks(path, kind)}, f"{kind} of all who came")


def test_an_end_that_nobody_reaps_and_one_after_it_left():
    with folder() as home, Daemon(home, "--threads", 1) as daemon:
        images(home)
        path = file_of(daemon)
        gone, tell = os.pipe()

        def leaves():
            with Link(daemon.socket) as link:
                stream = link.open(source=home / "images", **SMALL)
                stream.read(1)
                stream.close()
            os.read(gone, 1)
            return 3
        pid = in_child(leaves)
        leave = wait_mark(path, "leave")
        assert leave["how"] == "closed" and not marks(path, "exit"), leave
        os.write(tell, b"x")
        # It stays a zombie until reaped() below: what is known of it comes from /proc then.
        end = wait_mark(path, "exit", pid=pid)
        assert end["known"] and os.waitstatus_to_exitcode(end["status"]) == 3, end
        assert reaped(pid)
        os.close(gone)
        os.close(tell)


# ---- how the daemon ends ----

def ended(daemon, path, pid):
    """The last two marks, once the witness has gone."""
    wait_until(lambda: not alive(pid), "the witness's end", GONE)
    return marks(path, "end"), marks(path, "exit", trainer=0)


def test_daemon_is_told_to_end():
    for how in ("signal", "stop", "idle"):
        with folder() as home:
            daemon = Daemon(home, "--threads", 1, *(("--idle-exit", 1) if how == "idle" else ()))
            path, pid = file_of(daemon), daemon.status()["recorder"]["pid"]
            if how == "signal":
                os.kill(pid, signal.SIGTERM)  # as systemd and shells send it to all of a group
                os.kill(pid, signal.SIGINT)
                daemon.process.send_signal(signal.SIGTERM)
                words = f"asked: by signal 15 from pid {os.getpid()} ({Path('/proc/self/comm').read_text().strip()})"
            elif how == "stop":
                subprocess.run([tool("penstock"), "stop"], env={**daemon.environment, "PENSTOCK_SOCKET": daemon.socket}, check=True,
                               stdout=subprocess.DEVNULL, timeout=harness.LIMIT)
                words = "asked: by penstock stop"
            else:
                words = "idle: no client for 1 s"
            assert daemon.process.wait(timeout=harness.LIMIT) == 0
            daemon.out.close()
            end, = ended(daemon, path, pid)[0]
            last = entries(path)[-1]
            assert end["text"] == words and last["kind"] == "exit" and last["trainer"] == 0, (end, last)
            assert last["known"] and last["status"] == 0 and last["pid"] == daemon.process.pid, last


def test_daemon_is_killed():
    with folder() as home:
        images(home)
        daemon = Daemon(home, "--threads", 1)
        path, pid = file_of(daemon), daemon.status()["recorder"]["pid"]
        trainer = daemon.trainer(source=home / "images", epochs=100000, reconnect_ms=0, **SMALL)
        trainer.line()
        wait_until(lambda: marks(path, "trainer"), "a second")
        assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
        trainer.process.communicate(timeout=harness.LIMIT)
        told, last = ended(daemon, path, pid)
        assert not told and len(last) == 1 and last[0]["known"] and last[0]["status"] == signal.SIGKILL and last[0]["resident"], (told, last)


def test_start_that_fails_leaves_its_reason():
    with folder() as home:
        (home / "run").mkdir(mode=0o700)
        (home / "run/s.sock").mkdir()
        daemon = Daemon(home, "--threads", 1, expect_start=False)
        assert daemon.process.wait(timeout=harness.LIMIT) == 1
        daemon.out.close()
        path = wait_until(lambda: files(home), "the file")[0]
        end = wait_mark(path, "end")
        assert "cannot listen on" in end["text"], end


# ---- what stands in its way ----

def test_it_keeps_to_its_size():
    with folder() as home, Daemon(home, config="recorder_size: 1M\nthreads: 1\n") as daemon:
        images(home)
        path = file_of(daemon)
        assert path.stat().st_size == 1 << 20
        blocks = path.stat().st_blocks
        with Link(daemon.socket) as link:
            first = link.open(source=home / "images", group="g", **SMALL)
            first.opened()
            for _ in range(400):
                stream = link.open(source=home / "images", group="g", **SMALL)
                stream.opened()
                stream.close()
        wait_mark(path, "leave")
        attaches = marks(path, "attach")
        assert 50 < len(attaches) < 400 and marks(path, "start") and path.stat().st_size == 1 << 20 and path.stat().st_blocks == blocks
        assert daemon.status()["recorder"]["dropped"] < 400


def serves(daemon, home):
    assert len(harness.rows(daemon.batches(source=home / "images", epochs=1, **SMALL))) == 4


def noticed(daemon, words):
    wait_until(lambda: any(words in n for n in daemon.status()["notices"]), words)
    assert words in daemon.text() and daemon.text().count(words) == 1, "said once"


def test_full_disk():
    """By a limit on the size of files: what a full disk looks like without being root."""
    with folder() as home:
        images(home)
        with Daemon(home, "--threads", 1, prefix=("prlimit", "--fsize=1500000:1500000")) as daemon:
            noticed(daemon, "no room for the flight recorder's file")
            assert not files(home), "nothing is left behind"
            status = wait_until(lambda: s if (s := daemon.status())["machine"] and s["resident_bytes"] else None, "what it measures all the same")
            assert status["recorder"]["writes"] is False and status["resident_bytes"] > 0
            serves(daemon, home)


def test_a_disk_that_gets_room():
    with folder() as home:
        images(home)
        disk = home / "disk"
        disk.mkdir(mode=0o700)
        mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=0700", "none", str(disk)], stderr=subprocess.DEVNULL)
        if not mounted or mounted.returncode:
            raise Skip("a small file system cannot be mounted here")
        try:
            with Daemon(home, "--threads", 1, "--recorder", disk) as daemon:
                noticed(daemon, "no room for the flight recorder's file")
                assert not list(disk.iterdir())
                subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
                path = file_of(daemon)
                assert path.parent == disk and marks(path, "start")
                serves(daemon, home)
            wait_until(lambda: marks(path, "exit", trainer=0), "the end")
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)


def test_folders_that_cannot_be_used():
    with folder() as home:
        images(home)
        (home / "file").write_text("precious")
        (home / "open").mkdir()
        (home / "open").chmod(0o777)
        (home / "real").mkdir(mode=0o700)
        (home / "link").symlink_to(home / "real")
        for name, words in (("file/below", "file/below: Not a directory"), ("file", "it must be a folder"),
                            ("open", "no other user may write"), ("link", "not a link")):
            with Daemon(home, "--threads", 1, "--recorder", home / name) as daemon:
                noticed(daemon, words)
                assert daemon.status()["recorder"]["writes"] is False
            (home / "log").unlink()
        assert (home / "file").read_text() == "precious" and not list((home / "open").iterdir()) and not list((home / "real").iterdir())


def cpu_seconds(pid):
    stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def test_its_process_is_killed():
    with folder() as home:
        images(home)
        with Daemon(home, "--threads", 1) as daemon:
            path, pid = file_of(daemon), daemon.status()["recorder"]["pid"]
            os.kill(pid, signal.SIGKILL)
            noticed(daemon, f"the flight recorder (pid {pid}) ended by signal 9")
            status = daemon.status()
            assert status["recorder"] is None and status["machine"] is None and status["resident_bytes"] is None and not status["gpus"]
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "its being reaped")
            used = cpu_seconds(daemon.process.pid)
            time.sleep(1)
            assert cpu_seconds(daemon.process.pid) - used < 0.5, "its end of the socket is not looked at for ever"
            serves(daemon, home)
            assert marks(path, "start"), "what it wrote can be read"


def test_off_and_bad_values():
    with folder() as home, Daemon(home, "--threads", 1, "--recorder", "off") as daemon:
        status = daemon.status()
        assert status["recorder"] is None and status["machine"] is None and status["resident_bytes"] is None
        assert not (home / "state").exists()
        assert not Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children").read_text().strip()
    for options, words in ((("--recorder", "here"), "--recorder: expected auto, off or the absolute path of a folder"), (("--recorder", ""), "got \"\"")):
        answer = subprocess.run([tool("penstockd"), *options], capture_output=True, text=True, timeout=harness.LIMIT)
        assert answer.returncode == 2 and words in answer.stderr, answer


# ---- the folder ----

def test_old_files_go_and_others_stay():
    with folder() as home:
        attic = home / "state/penstock"
        attic.mkdir(parents=True, mode=0o700)
        old = [attic / f"recorder-202001{day:02}T000000Z-1.ring" for day in range(1, 13)]
        for path in old:
            path.write_bytes(b"x")
        others = [attic / "recorder-20200101T000000Z-1.ring.part", attic / "notes", attic / "recorder-.txt"]
        for path in others:
            path.write_bytes(b"x")
        odd = attic / "recorder-20190101T000000Z-1.ring"
        odd.symlink_to(others[1])
        with open(old[0], "rb") as used:
            fcntl.flock(used, fcntl.LOCK_EX)
            with Daemon(home, "--threads", 1) as daemon:
                path = file_of(daemon)
                assert [p for p in files(home) if not p.is_symlink()] == [old[0], *old[7:], path], files(home)
        assert all(p.exists() for p in others) and odd.is_symlink()


def test_two_at_once():
    with folder() as home:
        (home / "a").mkdir()
        (home / "b").mkdir()
        state = {"XDG_STATE_HOME": str(home / "state")}
        with Daemon(home / "a", "--threads", 1, environment=state) as one, Daemon(home / "b", "--threads", 1, environment=state) as two:
            paths = sorted((file_of(one), file_of(two)))
            assert paths == files(home) and len(set(paths)) == 2
        for path in paths:
            assert wait_mark(path, "end")


if __name__ == "__main__":
    if not Path(tool("ring_dump")).exists():
        sys.exit("ring_dump is not built")
    run_tests(globals())
