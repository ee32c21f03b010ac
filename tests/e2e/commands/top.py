"""`penstock top` with real daemons: on terminals of many kinds, as text, and through whatever ends it or what it looks at.

The terminal is a pty, and a small one of our own makes a picture of what is written to it."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, Daemon, Skip, folder, make_dataset, run_tests, tool, wait_until


def environment(daemon, **more):
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES", "LC_ALL", "LC_CTYPE")}
    return {**kept, "PENSTOCK_SOCKET": daemon.socket, "TERM": "xterm-256color", "LANG": "C.UTF-8", **more}


def need_terminfo(name="xterm-256color"):
    places = [os.environ.get("TERMINFO", ""), os.path.expanduser("~/.terminfo"), "/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"]
    if not any(os.path.exists(f"{place}/{name[0]}/{name}") for place in places if place):
        raise Skip(f"no terminfo of {name} here")


class Terminal:
    """`penstock top` on a pty; what it wrote last, line by line, as far as cursor movements tell."""

    def __init__(self, daemon, *options, lines=24, columns=80, command=None, **env):
        self.size = lines, columns
        self.raw, self.rest = b"", b""
        self.grid = {}
        self.row = self.column = 0
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.resize(lines, columns)
        self.process = subprocess.Popen(command or [tool("penstock"), "top", *options], stdin=slave, stdout=slave, stderr=slave,
                                        env=environment(daemon, **env), start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, lines, columns):
        self.size, self.region = (lines, columns), (0, lines - 1)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, limit=0.05):
        while select.select([self.master], [], [], limit)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            if not data:
                return
            self.raw += data
            self.write(data)
            limit = 0

    # What ncurses sends for xterm: enough of it to know what stands where.
    CODE = re.compile(rb"\x1b\[(\??[0-9;]*)([A-Za-z@`])|\x1b([()].|[=>78MDE])|\x1b\][^\x07]*\x07")

    def write(self, data):
        data = self.rest + data
        # The tail may be half of a sequence or of a character.
        at = data.rfind(b"\x1b")
        cut = len(data)
        if at >= 0 and not self.CODE.match(data, at):
            cut = at
        else:
            while cut and cut > len(data) - 4 and data[cut - 1] & 0xc0 == 0x80:
                cut -= 1
            if cut and data[cut - 1] >= 0xc0:
                cut -= 1
            elif cut < len(data):
                cut = len(data)
        self.rest, data = data[cut:], data[:cut]
        i = 0
        while i < len(data):
            found = self.CODE.match(data, i)
            if found:
                if found.group(3) == b"M":
                    self.feed(-1)
                self.code(*found.groups()[:2])
                i = found.end()
                continue
            byte = data[i]
            size = 1 if byte < 0x80 else 2 if byte < 0xe0 else 3 if byte < 0xf0 else 4
            self.put(byte, data[i:i + size])
            i += size

    def scroll(self, first, last, up):
        """Moves the lines first .. last up, or down; what is moved in is empty."""
        moved = {place: char for place, char in self.grid.items() if first <= place[0] <= last}
        for place in moved:
            del self.grid[place]
        for (row, column), char in moved.items():
            if first <= row - up <= last:
                self.grid[row - up, column] = char

    def feed(self, lines):
        if self.row == (self.region[1] if lines > 0 else self.region[0]):
            self.scroll(*self.region, lines)
        else:
            self.row += lines

    def put(self, byte, char):
        if byte == 13:
            self.column = 0
        elif byte == 10:
            self.feed(1)
        elif byte == 8:
            self.column = max(self.column - 1, 0)
        elif byte == 9:
            self.column = (self.column // 8 + 1) * 8
        elif byte >= 32:
            self.last = char.decode(errors="replace")
            self.grid[self.row, self.column] = self.last
            self.column += 1

    def code(self, arguments, kind):
        if kind is None or arguments.startswith(b"?"):
            return
        numbers = [int(n or 0) for n in arguments.split(b";")]
        n = max(numbers[0], 1)
        kind = kind.decode()
        if kind in "Hf":
            self.row, self.column = n - 1, max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif kind in "ABCD":
            self.row += {"A": -n, "B": n}.get(kind, 0)
            self.column += {"C": n, "D": -n}.get(kind, 0)
        elif kind in "G`":
            self.column = n - 1
        elif kind == "d":
            self.row = n - 1
        elif kind in "JK":
            here, how = (self.row, self.column), numbers[0]
            for place in list(self.grid):
                if (kind == "J" or place[0] == self.row) and (how == 2 or (place <= here if how == 1 else place >= here)):
                    del self.grid[place]
        elif kind == "r":
            self.region = (n - 1, numbers[1] - 1) if len(numbers) > 1 else (0, self.size[0] - 1)
            self.row = self.column = 0
        elif kind in "ST":
            self.scroll(*self.region, n if kind == "S" else -n)
        elif kind in "LM":
            self.scroll(self.row, self.region[1], n if kind == "M" else -n)
        elif kind in "@P":
            line = {place[1]: self.grid.pop(place) for place in list(self.grid) if place[0] == self.row}
            for column, char in line.items():
                to = column if column < self.column else column + n if kind == "@" else column - n
                if column < self.column or to >= self.column:
                    self.grid[self.row, to] = char
        elif kind == "X":
            for column in range(self.column, self.column + n):
                self.grid.pop((self.row, column), None)
        elif kind == "b":
            for _ in range(n):
                self.grid[self.row, self.column] = self.last
                self.column += 1
        else:
            assert kind in "mhltn", f"the test knows no ESC [ {arguments} {kind}"

    def picture(self):
        self.read()
        lines, columns = self.size
        return "\n".join("".join(self.grid.get((r, c), " ") for c in range(columns)).rstrip() for r in range(lines))

    def shows(self, *words):
        """Waits until all of them stand there; the picture."""
        def there():
            picture = self.picture()
            return picture if all(word in picture for word in words) else None
        try:
            return wait_until(there, f"{words} to be drawn")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.picture()}\nended with {self.process.poll()}") from None

    def press(self, keys):
        os.write(self.master, keys if isinstance(keys, bytes) else keys.encode())

    def ends(self):
        def gone():
            self.read(0.01)
            return self.process.poll() is not None
        wait_until(gone, "top to end")
        return self.process.returncode

    def restored(self):
        """Whether the terminal is as it was: its modes, its cursor, the screen that was there before."""
        self.read()
        assert termios.tcgetattr(self.slave) == self.before, "the terminal's modes are not restored"
        assert self.raw.rfind(b"\x1b[?1049l") > self.raw.rfind(b"\x1b[?1049h"), "the alternate screen is still shown"
        assert self.raw.rfind(b"\x1b[?25l") < max(self.raw.rfind(b"\x1b[?25h"), self.raw.rfind(b"\x1b[?12l\x1b[?25h")), "no cursor"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=LIMIT)
        os.close(self.master)
        os.close(self.slave)


@contextlib.contextmanager
def busy(home, name="train"):
    """A daemon, two trainers that share a stream and one of its own."""
    images = make_dataset(home / "images")
    with Daemon(home, "--threads", "2", "--memory", "96M") as daemon:
        keys = {"source": images, "batch_size": 8, "image_size": 32, "batches": 1000000, "sleep_ms": 20}
        trainers = [daemon.trainer(**keys, group=name, share="all", wait_for=2) for _ in range(2)] + [daemon.trainer(**keys, seed=5)]
        try:
            for trainer in trainers:
                trainer.line()
            yield daemon, trainers
        finally:
            for trainer in trainers:
                trainer.kill()


def run(daemon, *options, code=0, stdin=subprocess.DEVNULL, **env):
    done = subprocess.run([tool("penstock"), "top", *options], stdin=stdin, capture_output=True, text=True, timeout=LIMIT,
                          env=environment(daemon, **env))
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def test_text():
    with folder() as home, busy(home) as (daemon, trainers):
        out, err = run(daemon)
        assert err == "" and f"pid {daemon.process.pid}" in out and "\x1b" not in out
        for words in ("penstockd", "ledger", "stream", "train", "(private) images", "images/s", *(str(t.process.pid) for t in trainers)):
            assert words in out, out
        assert all(len(line) <= 100 for line in out.splitlines()), out
        narrow = run(daemon, COLUMNS="40")[0]
        assert all(len(line) <= 40 for line in narrow.splitlines()) and "train" in narrow, narrow
        assert run(daemon, LC_ALL="C")[0].isascii()
        # One snapshot after the other, and no more questions than that.
        out = run(daemon, "--interval", "0.2", "--count", "3")[0]
        assert out.count("penstockd ") == 3 and len(re.findall(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", out, re.M)) == 3, out
        for line in run(daemon, "--json", "-n", "2", "-i", "0.2")[0].splitlines():
            assert json.loads(line)["pid"] == daemon.process.pid
        assert json.loads(run(daemon, "-j")[0])["streams"]
        out = run(daemon, "--socket", daemon.socket, PENSTOCK_SOCKET="/nowhere")[0]
        assert f"pid {daemon.process.pid}" in out
        for options, says in ((["--interval", "0.1"], "0.2 to 60"), (["--interval", "61"], "60"), (["--interval", "x"], "x"),
                              (["--count", "0"], "count"), (["x"], "takes no operand")):
            assert says in run(daemon, *options, code=2)[1]
        # Text goes on until nobody reads it, or the daemon has gone.
        with subprocess.Popen([tool("penstock"), "top", "-i", "0.2"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              env=environment(daemon)) as endless:
            assert endless.stdout.readline()
            endless.stdout.close()
            assert endless.wait(timeout=LIMIT) == 1
        with subprocess.Popen([tool("penstock"), "top", "-i", "0.2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, env=environment(daemon)) as endless:
            assert endless.stdout.readline()
            for trainer in trainers:
                trainer.kill()
            daemon.stop()
            assert "no penstockd is running" in endless.communicate(timeout=LIMIT)[1] and endless.returncode == 1
        assert "no penstockd is running" in run(daemon, code=1)[1]
        daemon.out = open(os.devnull)


def test_keys():
    need_terminfo()
    with folder() as home, busy(home) as (daemon, trainers), Terminal(daemon, "--interval", "0.2", columns=120) as top:
        top.shows("penstockd", f"pid {daemon.process.pid}", "ledger", "train", "(private) images", "q quit", str(trainers[0].process.pid))
        top.press("\x1b[B\x1bOB")
        top.press("\r")
        top.shows("recipe", "training, 32 px, batch 8", "every 0.2 s"[:5], "slots")
        top.press("\x1b")
        top.shows("Enter closer")
        top.press("t")
        top.shows("trainer", "batches", str(trainers[2].process.pid), "s streams")
        top.press("m")
        top.shows("ledger", "process", "socket", daemon.socket)
        top.press("n")
        top.shows("notice")
        top.press("?")
        top.shows("stream in detail")
        top.press("\x1b")
        top.press("s")
        top.shows("Enter closer", "order: newest first")
        top.press("o")
        top.shows("order: waits")
        top.press("p")
        top.shows(" paused ")
        frozen = top.picture()
        time.sleep(0.6)
        assert top.picture() == frozen, "it moves while it is paused"
        top.press("p")
        wait_until(lambda: top.picture() != frozen, "the picture to move again")
        top.press("q")
        assert top.ends() == 0
        top.restored()


def test_sizes():
    need_terminfo()
    with folder() as home, busy(home) as (daemon, _), Terminal(daemon, "--interval", "0.2", lines=24, columns=80) as top:
        top.shows("q quit")
        for lines, columns, words in ((24, 40, "q quit"), (10, 80, "train"), (50, 250, "p pause"), (1, 1, ""), (3, 5, "pens"), (24, 80, "p pause")):
            top.grid.clear()
            top.resize(lines, columns)
            picture = top.shows(words) if words else top.picture()
            assert all(len(line) <= columns for line in picture.splitlines())
        top.press("q")
        assert top.ends() == 0
        top.restored()


def test_signals_restore_the_terminal():
    need_terminfo()
    with folder() as home, busy(home) as (daemon, _):
        for how in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, "\x03"):
            with Terminal(daemon, "-i", "0.2") as top:
                top.shows("q quit")
                if isinstance(how, str):
                    top.press(how)
                else:
                    top.process.send_signal(how)
                assert top.ends() == -(signal.SIGINT if isinstance(how, str) else how)
                top.restored()


def test_suspended_and_continued():
    """By a shell with job control: its modes in between, the picture afterwards."""
    need_terminfo()
    with folder() as home, busy(home) as (daemon, _):
        script = f"{tool('penstock')} top -i 0.2; echo it stopped; read line; fg; echo it ended with $?; read line"
        with Terminal(daemon, command=["sh", "-m", "-c", script]) as top:
            top.shows("q quit")
            top.press("\x1a")
            wait_until(lambda: top.read() or b"it stopped" in top.raw, "top to stop")
            top.restored()
            top.grid.clear()
            top.press("\n")
            top.shows("q quit", "train")
            top.press("q")
            wait_until(lambda: top.read() or b"it ended with 0" in top.raw, "top to end")
            top.restored()
            top.press("\n")
            assert top.ends() == 0


def test_terminals_of_all_kinds():
    need_terminfo()
    with folder() as home, busy(home) as (daemon, _):
        for env in ({"TERM": "dumb"}, {"TERM": "no-such-terminal"}, {"TERM": ""}):
            with Terminal(daemon, **env) as top:
                assert top.ends() == 0
                top.read()
                assert b"penstockd" in top.raw and b"\x1b" not in top.raw, top.raw
        for env, colors in (({}, True), ({"NO_COLOR": "1"}, False)):
            with Terminal(daemon, "-i", "0.2", **env) as top:
                top.shows("q quit")
                assert (re.search(rb"\x1b\[[0-9;]*3[1-3][;m]", top.raw) is not None) == colors, top.raw
                top.press("q")
                assert top.ends() == 0
        with Terminal(daemon, LC_ALL="C") as top:
            assert "##" in top.shows("ledger", "q quit")
            assert not [byte for byte in top.raw if byte > 0x7e], top.raw
            top.press("q")
            assert top.ends() == 0


def test_the_daemon_ends_and_comes_back():
    need_terminfo()
    with folder() as home:
        with busy(home) as (daemon, trainers):
            with Terminal(daemon, "-i", "0.2") as top:
                top.shows("q quit", f"pid {daemon.process.pid}")
                # Stopped it does not answer; the keys go on working.
                daemon.process.send_signal(signal.SIGSTOP)
                top.press("t")
                top.shows("s streams")
                top.press("s")
                daemon.process.send_signal(signal.SIGCONT)
                for trainer in trainers:
                    trainer.kill()
                daemon.process.kill()
                daemon.process.wait(timeout=LIMIT)
                top.shows(") ended", "`penstock why`", "train", f"pid {daemon.process.pid}")
                with Daemon(home, "--threads", "2", "--memory", "96M") as second:
                    top.shows(f"pid {second.process.pid}", "0 streams")
                    assert ") ended" not in top.picture()
                top.shows(") ended")
                top.press("q")
                assert top.ends() == 0
                top.restored()
            with Terminal(daemon) as top:
                assert top.ends() == 1
                top.read()
                assert b"no penstockd is running" in top.raw and b"\x1b" not in top.raw
            daemon.process.returncode = 0


def test_names_are_tamed():
    need_terminfo()
    with folder() as home:
        name = "中文\x1b[31m\x7f\n"
        images = make_dataset(home / "images")
        odd = home / name
        os.rename(images, odd)
        with Daemon(home, "--threads", "2", "--memory", "96M") as daemon:
            trainer = daemon.trainer(source=odd, batch_size=8, image_size=32, batches=100000, sleep_ms=20)
            trainer.line()
            out = run(daemon)[0]
            assert "中文?[31m??" in out and out.isprintable() is False and "\x1b" not in out and "\x7f" not in out, out
            with Terminal(daemon, "-i", "0.2") as top:
                top.shows("?[31m??", "q quit")
                top.press("q")
                assert top.ends() == 0
            trainer.kill()


if __name__ == "__main__":
    run_tests(globals())
