#!/usr/bin/env python3
"""A whole daemon that is bound: its rows are those of one that is not, what lies outside of its roots is refused with a sentence and by
the kernel, everything that it writes and tells still is, and what is in force is said; also where kernel or configuration have less.

    confine.py --deny CALL:ERRNO[,...] PROGRAM...     runs a program to which the kernel answers so"""
import ctypes
import errno
import http.client
import platform
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import *
from stream_checks import npy

NUMBERS = {"x86_64": {"seccomp": 317, "landlock": 444, "sched_getattr": 315}, "aarch64": {"seccomp": 277, "landlock": 444, "sched_getattr": 275}}
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def deny(*pairs):
    """The words in front of a program to which the kernel answers these calls with these errors."""
    numbers = NUMBERS.get(platform.machine()) or {}
    if not numbers:
        raise Skip(f"the numbers of system calls on {platform.machine()} are not known here")
    return (sys.executable, __file__, "--deny", ",".join(f"{numbers[call]}:{error}" for call, error in pairs))


def run_denied(pairs, command):
    """A filter of the kernel's own making: (code, jt, jf, k), as in linux/filter.h."""
    rules = [(0x20, 0, 0, 4), (0x15, 1, 0, AUDIT[platform.machine()]), (0x06, 0, 0, 0x7FFF0000), (0x20, 0, 0, 0)]
    for number, error in pairs:
        rules += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | error)]
    rules.append((0x06, 0, 0, 0x7FFF0000))
    code = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong]
    if libc.prctl(38, 1, None, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        sys.exit(f"no filter can be set here: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)


def landlock_abi():
    libc = ctypes.CDLL(None, use_errno=True)
    return max(libc.syscall(444, None, ctypes.c_size_t(0), 1), 0)


def roots(*folders, more=""):
    return f"roots: [{', '.join(map(str, folders))}]\n{more}"


@contextlib.contextmanager
def places():
    """(the daemon's home, a root with images and tars, a folder outside with the same)."""
    with folder() as home, folder() as inside, folder() as outside:
        for where in (inside, outside):
            make_dataset(where / "images", per_class=8)
            make_dataset(where / "tars", per_class=8, tars=True, per_shard=8)
        yield home, inside, outside


def files(path):
    return {str(p.relative_to(path)) for p in path.rglob("*")}


def refusal(link, **keys):
    try:
        link.open(batch_size=2, **keys).opened()
    except Refused as refused:
        assert refused.code == -errno.EACCES, refused
        return refused.sentence
    raise AssertionError(f"{keys} was not refused")


def tasks(pid, key):
    """A field of /proc/PID/status, of every thread."""
    found = [re.split(r"\s+", line)[1] for task in Path(f"/proc/{pid}/task").iterdir()
             for line in (task / "status").read_text().splitlines() if line.startswith(f"{key}:")]
    assert found
    return set(found)


def test_same_rows():
    with places() as (home, inside, _):
        before = files(inside)
        keys = [dict(source=inside / "images", epochs=2, batch_size=4), dict(source=f"{inside}/tars/*.tar", epochs=2, batch_size=4)]
        (home / "free").mkdir()
        with Daemon(home / "free", "--cache", "on", config="seccomp: off\ncache_dir: " + str(home / "cache") + "\n") as daemon:
            free = [rows(daemon.batches(**k)) for k in keys]
        assert len(free[0]) == 12
        for path in files(inside) - before:
            (inside / path).unlink()
        for reader in ("io_uring", "pread"):
            (home / reader).mkdir()
            with Daemon(home / reader, "--reader", reader, config=roots(inside, more="seccomp: on\n")) as daemon:
                assert [rows(daemon.batches(**k)) for k in keys] == free
                # Another time: by indexes and checkpoints that it has written.
                assert [rows(daemon.batches(**k)) for k in keys] == free
                assert "restricted to reading" in daemon.status()["reader"] or reader == "pread" or kernel() < (5, 10)
            cache = files(home / reader / "cache/penstock")
            assert any(name.endswith(".idx") for name in cache) and any(name.endswith(".ckp") for name in cache), cache
            assert files(inside) == before, "something was written beside the data"


def kernel():
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", platform.release()).groups()))


def test_what_lies_outside_is_refused():
    with places() as (home, inside, outside):
        (inside / "folder").symlink_to(outside / "images")
        (inside / "shard.tar").symlink_to(next((outside / "tars").glob("*.tar")))
        (inside / "mixed/a").mkdir(parents=True)
        picture = next((outside / "images").rglob("*.jpg"))
        (inside / "mixed/a/x.jpg").symlink_to(picture)
        (inside / "deep/train").mkdir(parents=True)
        (inside / "deep/train/b").symlink_to(outside / "images")
        (outside / "manifest.csv").write_text("path,label\n")
        (outside / "classes.txt").write_text("a\n")
        (inside / "classes.txt").symlink_to(outside / "classes.txt")
        numbers = npy(outside / "indices.npy", [0, 1])
        fine = inside / "images"
        sources = [outside / "images", outside / "tars/shard-000000.tar", f"{outside}/tars/*.tar", f"{outside}/tars/shard-{{000000..000001}}.tar",
                   f"{inside}/../{outside.name}/images", inside / "folder", inside / "shard.tar", f"{inside}/*.tar", inside / "mixed", inside / "deep",
                   "/", "/etc/passwd", outside / "not-there", f"{outside}/none-*.tar", f"{{{inside},{outside}}}/tars/*.tar"]
        with Daemon(home, config=roots(inside)) as daemon, Link(daemon.socket) as link:
            for source in sources:
                sentence = refusal(link, source=source)
                assert "roots: " + str(inside) in sentence and "outside" in sentence, (source, sentence)
            assert str(outside / "images") in refusal(link, source=inside / "folder")
            for keys, word in ((dict(source=fine, indices=numbers), "indices"), (dict(source=fine, weights=str(numbers)), "weights"),
                               (dict(source=fine, labels={"manifest": str(outside / "manifest.csv")}), "manifest"),
                               (dict(source=fine, labels={"manifest": str(fine), "classes": str(inside / "classes.txt")}), "classes"),
                               (dict(source=outside / "images", split="a[:50%]"), "source"),
                               (dict(sources=[{"source": str(fine), "weight": 1}, {"source": str(outside / "images"), "weight": 1}]), "source")):
                sentence = refusal(link, **keys)
                assert word in sentence and "roots: " in sentence, (keys, sentence)
            # Lists that the Python loader made lie in the cache folder.
            for name, values, kind in (("indices", [0, 1], "<i8"), ("weights", [1.0] * 24, "<f8")):
                (home / "cache/penstock" / name).mkdir(parents=True, exist_ok=True)
                kept = npy(home / "cache/penstock" / name / "made.npy", values, kind)
                assert link.open(source=fine, batch_size=2, epochs=1, **{name: str(kept)}).read()
            # Whoever was refused is served all the same.
            assert len(link.open(source=fine, batch_size=2, epochs=1).read()) == 12


def test_the_kernel_refuses_too():
    """A file that becomes a link when the daemon has looked. Without Landlock its bytes are read."""
    if not landlock_abi():
        raise Skip("this kernel has no Landlock")
    for bound in (False, True):
        with folder() as home, folder() as inside, folder() as outside:
            make_dataset(inside / "images", per_class=4)
            with Daemon(home, "--no-entry-points", config=roots(inside) if bound else "{}\n") as daemon, Link(daemon.socket) as link:
                stream = link.open(source=inside / "images", batch_size=2, train=False, epochs=1, prefetch=2)
                got = stream.read(1)
                victim = sorted((inside / "images").rglob("*.jpg"))[-1]
                victim.rename(outside / "x.jpg")
                victim.symlink_to(outside / "x.jpg")
                try:
                    got += stream.read()
                    assert not bound and len(got) == 6 and not any(row.flags & INVALID for _, batch in got for row in batch), got
                except Refused as refused:
                    assert bound and refused.code == -errno.EACCES and str(victim) in refused.sentence, refused


def fetched(connection, path):
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status in (200, 404), (path, answer.status)
    return body if answer.status == 200 else None


def test_everything_else_goes_on():
    with places() as (home, inside, _):
        make_dataset(inside / "broken", per_class=2)
        bad = sorted((inside / "broken").rglob("*.jpg"))[0]
        bad.write_bytes(b"this is no image")
        with folder() as state:
            config = roots(inside, more=f"recorder: {state}/r\nlog_level: debug\n")
            with Daemon(home, "--log-file", home / "own.log", config=config) as daemon:
                trainer = daemon.trainer(source=inside / "images", batch_size=4, epochs=100000, sleep_ms=5)
                wait_until(lambda: any(s.get("trainers") and s["trainers"][0]["given"] > 3 for s in daemon.status()["streams"]), "batches")
                wait_until(lambda: (daemon.status()["machine"] or {}).get("available"), "the recorder")
                connection = http.client.HTTPConnection("localhost")
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.connect(str(home / "run/http.sock"))
                # What is served is up to a second old: the stream may not be in it at first.
                for path in ("/metrics", "/sheet?stream=0"):
                    wait_until(lambda path=path: fetched(connection, path), path)
                connection.close()
                top = subprocess.run([tool("penstock"), "top", "--plain", "--count", "1", "--socket", daemon.socket], capture_output=True, text=True, timeout=LIMIT)
                assert top.returncode == 0 and str(trainer.process.pid) in top.stdout, top
                # A configuration that is replaced, as editors do.
                fresh = home / "fresh.yaml"
                fresh.write_text(roots("/", more="log_level: info\nmax_clients: 77\n"))
                fresh.rename(home / "penstock.yaml")
                daemon.process.send_signal(signal.SIGHUP)
                log = home / "own.log"
                wait_until(lambda: "read " + str(home / "penstock.yaml") + " again" in log.read_text(), "the reload")
                with Link(daemon.socket) as link:
                    assert "roots: " + str(inside) in refusal(link, source="/etc")
                    assert len(link.open(source=inside / "broken", batch_size=2, epochs=1, max_broken=1).read()) == 3
                assert daemon.status()["confinement"]["roots"] == [str(inside)]
                trainer.kill()
                wait_until(lambda: f"trainer {trainer.process.pid} was ended by signal 9" in log.read_text(), "its end")
                assert (home / "cache/penstock/quarantine.tsv").read_text().count(str(bad)) >= 1
            why = subprocess.run([tool("penstock"), "why", "--folder", f"{state}/r", str(trainer.process.pid)], capture_output=True, text=True,
                                 timeout=LIMIT)
            assert "SIGKILL" in why.stdout, why
            assert not (home / "run/s.sock").exists() and not (home / "run/http.sock").exists()


def test_a_configuration_that_is_a_link():
    with places() as (home, inside, outside):
        text = roots(inside, more="log_level: info\n")
        path = home / "penstock.yaml"
        (outside / "real.yaml").write_text(text)
        path.symlink_to(outside / "real.yaml")
        with Daemon(home, "--config", path) as daemon:
            (outside / "real.yaml").write_text(text + "max_clients: 77\n")
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "again" in daemon.text() or "stays in force" in daemon.text(), "the reload")
            assert f"read {path} again" in daemon.text(), daemon.text()


def test_data_where_the_daemon_writes():
    with folder() as home:
        (home / "cache").mkdir()
        make_dataset(home / "cache/images", per_class=2)
        with Daemon(home, config=roots(home / "cache", more=f"cache_dir: {home}/cache\n")) as daemon:
            notices = daemon.status()["notices"]
            assert any(f"{home}/cache is inside {home}/cache, which this penstockd may write to" in notice for notice in notices), notices


def test_the_page_on_a_port():
    with places() as (home, inside, _):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        for address in (str(port), f"localhost:{port}", "0"):
            with Daemon(home, "--http", address, config=roots(inside)) as daemon:
                where = daemon.status()["http"]
                assert where.startswith("http://127.0.0.1:"), (where, daemon.text())
                connection = http.client.HTTPConnection("127.0.0.1", int(where.rstrip("/").rsplit(":", 1)[1]), timeout=LIMIT)
                connection.request("GET", "/healthz")
                assert connection.getresponse().status == 200
                connection.close()


def test_the_page_in_another_folder():
    with places() as (home, inside, outside), Daemon(home, "--http", f"unix:{outside}/page.sock", config=roots(inside)) as daemon:
        assert daemon.status()["http"] == f"unix:{outside}/page.sock", daemon.text()


def witness_of(daemon):
    return wait_until(lambda: (daemon.status()["recorder"] or {}).get("pid"), "the recorder")


def test_what_is_in_force_is_said():
    with places() as (home, inside, _), Daemon(home, config=roots(inside)) as daemon:
        status = daemon.status()
        said = status["confinement"]
        assert said["no_new_privs"] and not said["core_files"] and said["seccomp"] and said["roots"] == [str(inside)], said
        assert said["landlock"] == landlock_abi() and said["ports"] == (landlock_abi() >= 4) and said["scoped"] == (landlock_abi() >= 6), said
        assert "system calls filtered (seccomp)" in said["describe"] and "no core files" in said["describe"], said
        assert "confined: " + said["describe"] in daemon.text() and f"root: {inside}" in daemon.text()
        text = subprocess.run([tool("penstock"), "status", "--socket", daemon.socket], capture_output=True, text=True, timeout=LIMIT).stdout
        assert re.search(r"confined +no new privileges", text) and re.search(rf"(?m)^  roots +{re.escape(str(inside))}$", text), text
        assert status["notices"] == ([] if landlock_abi() else status["notices"])
        for pid in (daemon.process.pid, witness_of(daemon)):
            # The flight recorder's process binds itself, soon.
            wait_until(lambda pid=pid: tasks(pid, "Seccomp") == {"2"} and tasks(pid, "NoNewPrivs") == {"1"}, f"{pid} to be bound")
            limits = Path(f"/proc/{pid}/limits").read_text()
            assert re.search(r"Max core file size +0 +0 ", limits), limits


def slice_ns(thread):
    """Of a thread: how long its turns are, as sched_getattr says; 0 before Linux 6.12."""
    attributes = ctypes.create_string_buffer(48)
    number = (NUMBERS.get(platform.machine()) or {}).get("sched_getattr")
    if not number or ctypes.CDLL(None).syscall(number, thread, attributes, 48, 0):
        raise Skip("sched_getattr cannot be called here")
    return struct.unpack_from("Q", attributes.raw, 24)[0]


def test_all_workers_have_asked_for_long_turns():
    """The filter forbids it, so each has asked before. More workers than processors: some would not have run by then."""
    if slice_ns(0) == 0:
        raise Skip("this kernel has no slices of a thread's own")
    with places() as (home, inside, _), Daemon(home, "--threads", "16", config=roots(inside)) as daemon:
        tasks = Path(f"/proc/{daemon.process.pid}/task")
        workers = [int(task.name) for task in tasks.iterdir() if (task / "comm").read_text() == "penstock-work\n"]
        assert len(workers) == 16, workers
        assert {slice_ns(worker) for worker in workers} == {20_000_000}


def test_seccomp_off():
    with places() as (home, inside, _), Daemon(home, config=roots(inside, more="seccomp: off\ncore_files: on\n")) as daemon:
        said = daemon.status()["confinement"]
        assert not said["seccomp"] and said["core_files"] and "not filtered: seccomp: off" in said["describe"], said
        assert tasks(daemon.process.pid, "Seccomp") == {"0"} and not daemon.status()["notices"]


def test_a_kernel_without_landlock():
    with places() as (home, inside, outside):
        with Daemon(home, config=roots(inside), prefix=deny(("landlock", errno.ENOSYS))) as daemon, Link(daemon.socket) as link:
            status = daemon.status()
            assert status["confinement"]["landlock"] == 0 and status["confinement"]["seccomp"], status["confinement"]
            assert any("this kernel has no Landlock" in notice for notice in status["notices"]), status["notices"]
            assert "outside" in refusal(link, source=outside / "images")
            assert len(link.open(source=inside / "images", batch_size=4, epochs=1).read()) == 6


def test_a_folder_that_was_indexed_without_roots():
    """Its index says nothing of where its links lead: it is walked again."""
    with places() as (home, inside, outside):
        (inside / "mixed/a").mkdir(parents=True)
        (inside / "mixed/a/x.jpg").symlink_to(next((outside / "images").rglob("*.jpg")))
        for bound in (False, True):
            prefix = deny(("landlock", errno.ENOSYS)) if bound else ()
            with Daemon(home, config=roots(inside) if bound else "{}\n", prefix=prefix) as daemon, Link(daemon.socket) as link:
                if bound:
                    assert "leads to" in refusal(link, source=inside / "mixed")
                else:
                    assert len(link.open(source=inside / "mixed", batch_size=1, epochs=1).read()) == 1


def test_where_seccomp_is_forbidden():
    with folder() as home:
        denied = deny(("seccomp", errno.EPERM))
        with Daemon(home, prefix=denied) as daemon:
            status = daemon.status()
            assert not status["confinement"]["seccomp"], status["confinement"]
            assert any("system calls are not filtered" in notice and "seccomp: off" in notice for notice in status["notices"]), status
        daemon = Daemon(home, config="seccomp: on\n", prefix=denied, expect_start=False)
        assert daemon.process.wait(timeout=LIMIT) == 1
        assert "seccomp: on, but system calls cannot be filtered here" in daemon.text() and "auto" in daemon.text()
        daemon.stop()


def test_wrong_settings():
    with folder() as home:
        (home / "file").write_text("")
        for text, words in ((f"roots: {home}\n", ("penstock.yaml:1:", "a list of the folders")), ("roots: [data]\n", ("penstock.yaml:1:", "absolute path")),
                            (f"roots: [{home}/gone]\n", (f"{home}/gone", "No such file")), (f"roots: [{home}/file]\n", ("not a folder",)),
                            (f"roots: [{', '.join(['/tmp'] * 33)}]\n", ("at most 32",)), ("seccomp: maybe\n", ("auto", "on", "off")),
                            ("core_files: some\n", ("core_files",)), (f"roots: [/{'x' * 2000}]\n", ("at most 1023 bytes",)),
                            (f"roots: [{home}]\ncache_dir: {home}/file/cache\n", ("cache folder", "cache_dir"))):
            daemon = Daemon(home, config=text, expect_start=False)
            code = daemon.process.wait(timeout=LIMIT)
            assert code in (1, 2) and all(word in daemon.text() for word in words), (text, code, daemon.text())
            daemon.stop()
            daemon.log.unlink()
        daemon = Daemon(home, "--root", "data", expect_start=False)
        assert daemon.process.wait(timeout=LIMIT) == 2 and "--root: expected the absolute path" in daemon.text()
        daemon.stop()


def test_the_command_line_beats_the_file():
    with places() as (home, inside, outside):
        with Daemon(home, "--root", inside / "images", "--root", inside / "tars", config=roots(outside)) as daemon, Link(daemon.socket) as link:
            assert daemon.status()["confinement"]["roots"] == [str(inside / "images"), str(inside / "tars")]
            assert str(inside / "tars") in refusal(link, source=outside / "images")
            assert len(link.open(source=inside / "images", batch_size=4, epochs=1).read()) == 6


def test_a_private_daemon():
    """No roots, all the rest."""
    with places() as (home, inside, _):
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PENSTOCKD": tool("penstockd")}
        home.chmod(0o700)
        trainer = Trainer(str(home / "penstock/p.sock"), environment, private=1, daemon=1, source=inside / "images", batch_size=4, epochs=20,
                          sleep_ms=20)
        word, pid = trainer.line().split()
        assert word == "daemon"
        wait_until(lambda: tasks(int(pid), "Seccomp") == {"2"}, "the daemon to be bound")
        assert tasks(int(pid), "NoNewPrivs") == {"1"}
        assert len(rows(trainer.finish())) == 120
        os.kill(int(pid), signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists() or tasks_ended(pid), "its end")


def tasks_ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_another_user():
    """Whoever is not root is served, watched and told as root is."""
    with tools_for(NOBODY), places() as (home, inside, outside):
        for path in (home, inside, outside):
            subprocess.run(["chown", "-R", str(NOBODY), str(path)], check=True)
            path.chmod(0o755)
        with Daemon(home, config=roots(inside), prefix=AS_NOBODY) as daemon:
            environment = {**daemon.environment, "PENSTOCK_SOCKET": daemon.socket}
            trainer = subprocess.run([*AS_NOBODY, tool("dump_batches"), f"socket={daemon.socket}", "private=0", f"source={inside}/images",
                                      "batch_size=4", "epochs=1"], capture_output=True, text=True, env=environment, timeout=LIMIT)
            assert len(rows(trainer.stdout.splitlines())) == 6, trainer
            wait_until(lambda: daemon.status()["resident_bytes"], "the recorder to see the daemon")
            wait_until(lambda: "ended with status" in daemon.text(), "the trainer's end to be told")


@contextlib.contextmanager
def served(place):
    """The URL of a folder, by a server on loopback that serves ranges (tests/remote/fault_server.py, without faults)."""
    server = subprocess.Popen([sys.executable, str(ROOT / "tests/remote/fault_server.py"), str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().split()[1]}"
    finally:
        server.stdin.close()
        server.wait(timeout=LIMIT)


def test_urls():
    """Where a root is a URL, a confined daemon streams from it, and from nowhere else. Where none is, it reads no URL and has no
    call with which to connect."""
    with places() as (home, inside, outside), served(inside / "tars") as url, served(outside / "tars") as other:
        name = sorted(path.name for path in (inside / "tars").iterdir() if path.suffix == ".tar")[0]
        (home / "cache").mkdir()
        private = f"cache_dir: {home}/cache\n"
        with Daemon(home, config=roots(url, inside / "images", more=private)) as daemon, Link(daemon.socket) as link:
            said = daemon.status()["confinement"]
            assert said["network"] and said["seccomp"] and "connections to servers possible" in said["describe"], said
            got = link.open(source=f"{url}/{name}", batch_size=4, epochs=1).read()
            assert len(got) == 2 and not any(row.flags & INVALID for _, batch in got for row in batch), got
            assert len(link.open(source=inside / "images", batch_size=4, epochs=1).read()) == 6
            for source in (f"{other}/{name}", "s3://bucket/x.tar", f"{url}-evil/{name}", f"{url}/../{name}"):
                refused = refusal_of(link, source)
                assert "roots" in refused or ".." in refused or "port" in refused, (source, refused)
        with Daemon(home, config=roots(inside, more=private)) as daemon, Link(daemon.socket) as link:
            said = daemon.status()["confinement"]
            assert not said["network"] and "connections" not in said["describe"], said
            assert "roots" in refusal_of(link, f"{url}/{name}")


def refusal_of(link, source):
    """The sentence with which a source is refused, whatever its code."""
    try:
        link.open(batch_size=2, source=source).opened()
    except Refused as refused:
        return refused.sentence
    raise AssertionError(f"{source} was not refused")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--deny"]:
        run_denied([tuple(map(int, pair.split(":"))) for pair in sys.argv[2].split(",")], sys.argv[3:])
    run_tests(globals())
