"""A matrix: environments that penstock is put into, and what users do there.

A row (Row, in rows_*.py) is an environment: what a shell does in namespaces of its own, what launch.c sets, variables, a user, a
dataset that was tampered with. A column (ACTIONS) is what somebody does: a daemon and a trainer, a trainer that starts its private
daemon, `penstock bench`, `check` and `pack`, the Python loader. In each cell

- it works, and what comes out is byte for byte what comes out undisturbed, or
- it says what is missing: exit code 1 or 2, and the sentence that the row names (`says`).

Never a signal, never a hang, never an empty message. A row says which of the two it must be; one that this machine cannot make is
skipped with a word. After each cell whatever was started is ended, and a daemon must end well when it is asked to.

    matrix.py [PATTERN...]     the rows whose names fit; with none those of every commit, or, PENSTOCK_TEST_NIGHTLY=1, all
    matrix.py --table          all of them, as the table of docs/evidence/measured/trust-environment.md"""
import contextlib
import ctypes
import dataclasses
import fnmatch
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import BIN, LIMIT, NIGHTLY, ROOT, SLOW, Skip, folder, listens, make_dataset, may_start, promise, tool, tools_for  # noqa: E402

BATCHES = ("batch_size=4", "image_size=16", "seed=3", "epochs=2")
NOBODY = 12345  # a user that no machine has in its passwd
HANG = 20 * SLOW  # a cell takes a second; what takes so long hangs
PR_SET_CHILD_SUBREAPER = 36
CANNOT = 125  # what launch.c ends with when it cannot make the environment
# What names ranks, jobs and daemons outside.
STRANGE = re.compile(r"(PENSTOCK|XDG|MASTER|TORCHELASTIC|SLURM|OMPI|PMI)_.*|(LOCAL_)?(RANK|WORLD_SIZE)|PENSTOCKD")
PYTHON = """
import sys, zlib
import penstock
with penstock.Loader(sys.argv[1], batch_size=4, image_size=16, framework="numpy", dtype="uint8", seed=3) as loader:
    for images, labels in loader:
        print(zlib.crc32(images.tobytes()), labels.tolist())
"""


@dataclasses.dataclass
class Row:
    """An environment. `shell` runs as root of namespaces made by unshare(1) with the flags `unshare`, `$1` being the row's folder;
    `launch` are words for launch.c; `env` variables, of which None takes one away, and {home} is the folder; `user` runs it all;
    `dataset(path)` tampers with a copy of the dataset and may return another source. `says`: what must be said, by action or "*"."""
    name: str
    shell: str = ""
    unshare: str = ""
    launch: tuple = ()
    env: dict = dataclasses.field(default_factory=dict)
    user: int = 0
    dataset: object = None
    source: str = "{home}/data"
    daemon: tuple = ()  # options of penstockd
    trainer: tuple = ()  # options of the trainer
    says: dict = dataclasses.field(default_factory=dict)
    log: str = ""  # what the daemon's log must hold
    proof: str = ""  # a shell's words that hold inside: that the environment is what it says
    only: tuple = ()
    broken: bool = False  # the dataset has a sample that cannot be read: the others are there, in another order
    ci: tuple = ()  # the actions that every commit is tested by
    trainer_outside: bool = False  # the daemon is inside alone
    during: object = None  # during(daemon) while the trainer reads
    prepare: object = None  # prepare(cell) before it starts


class Wrong(Exception):
    """A cell that neither works nor says so."""


# ---- processes ----

def children():
    """Processes whose parent this is, by adoption too."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
            if int(words[1]) == os.getpid():
                found.append(int(pid))
    return found


def wait_end(pid, seconds):
    """How a child ended, as waitpid() says it, or None."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            got, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return 0
        if got:
            return status
        time.sleep(0.005)
    return None


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return ""


def end_all():
    """Ends what a cell has left: private daemons are asked to, and must do it well; recorders follow. What was wrong, or ""."""
    wrong = ""
    for _ in range(4):  # children of children become ours
        for pid in children():
            name = os.path.basename(command_of(pid))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if name == "penstockd" else signal.SIGKILL)
            status = wait_end(pid, 10 * SLOW)
            if status is None:
                os.kill(pid, signal.SIGKILL)
                status = wait_end(pid, 10)
                wrong = wrong or f"{name or pid} did not end"
            elif name == "penstockd" and os.WIFSIGNALED(status):
                wrong = wrong or f"the private daemon died of signal {os.WTERMSIG(status)}"
    return wrong


# ---- a cell ----

class Answer:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


class Cell:
    """One row's folder for one action."""

    def __init__(self, row, home, made):
        self.row, self.home, self.log = row, Path(home), Path(home) / "log"
        for name in ("run", "cache", "state", "tmp", "out", "home"):
            (self.home / name).mkdir(mode=0o700)
        shutil.copytree(made, self.home / "data", symlinks=True)
        self.source = os.fsencode(row.source.format(home=self.home))
        if row.dataset:
            self.source = row.dataset(self.home / "data") or self.source
        self.environment = {k: v for k, v in os.environ.items() if not STRANGE.fullmatch(k)}
        usual = {"HOME": "{home}/home", "XDG_CACHE_HOME": "{home}/cache", "XDG_STATE_HOME": "{home}/state", "TMPDIR": "{home}/tmp",
                 "XDG_RUNTIME_DIR": "{home}/run", "PYTHONPATH": str(BIN.parent / "python"), "PYTHONDONTWRITEBYTECODE": "1", **row.env}
        for name, value in usual.items():
            self.environment.pop(name, None)
            if value is not None:
                self.environment[name] = value.format(home=self.home) if isinstance(value, str) else value
        if row.prepare:
            row.prepare(self)
        self.home.chmod(0o755)
        if row.user:
            subprocess.run(["chown", "-hR", f"{row.user}:{row.user}", str(self.home)], check=True)

    def wrap(self, *program):
        row, words = self.row, []
        if row.unshare:
            words += ["unshare", *row.unshare.split(), "--"]
        if row.shell:
            words += ["sh", "-ec", f'home=$1; shift\n{row.shell}\nexec "$@"', "sh", str(self.home)]
        launch = row.launch + ((f"user={row.user}",) if row.user else ())
        if launch:
            words += [tool("environment_launch"), *launch, "--"]
        return [*words, *program]

    def start(self, *program, outside=False, **keys):
        return subprocess.Popen(list(program) if outside else self.wrap(*program), env=self.environment, cwd=self.home,
                                stdin=subprocess.DEVNULL, **keys)

    def run(self, *program, outside=False):
        process = self.start(*program, outside=outside, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=HANG)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Wrong(f"hung: {program[:2]}") from None
        return Answer(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    def probe(self, action):
        """Whether this machine lets the environment be made."""
        answer = self.run("true")
        if answer.code and (self.row.shell or self.row.unshare or answer.code == CANNOT):
            raise Skip((answer.err + answer.out).strip().splitlines()[-1] if answer.err + answer.out else f"ends with {answer.code}")
        if self.row.proof and self.run("sh", "-c", self.row.proof, "sh", str(self.home)).code:
            raise Wrong(f"inside, this does not hold: {self.row.proof}")
        if action == "python" and self.row.user and not may_start(self.row.user, BIN.parent / "python/penstock"):
            raise Skip("this user cannot enter the build's folder, which has the Python package")
        if action == "python" and self.run(sys.executable, "-c", "import numpy").code:
            raise Skip("Python itself, or NumPy, does not run in it")


# ---- actions: what each yields when it works ----

def trainer_lines(answer):
    if answer.code == 0 and "\nend" in answer.out:
        return [line for line in answer.out.splitlines() if line[:1].isdigit()]
    return None


def act_daemon(cell):
    """penstockd, and a trainer that reads two epochs."""
    row = cell.row
    socket = str(cell.home / "run/s.sock")
    # A limit of files' sizes would bind its log, were that a file.
    with open(cell.log, "ab") as log:
        copy = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
    daemon = cell.start(tool("penstockd"), "--socket", socket, "--threads", "2", "--memory", "128M", *row.daemon, stdout=copy.stdin, stderr=copy.stdin)
    copy.stdin.close()
    end = time.monotonic() + HANG
    while not listens(socket) and daemon.poll() is None:
        if time.monotonic() > end:
            raise Wrong("the daemon does not listen")
        time.sleep(0.01)
    if daemon.poll() is not None:
        copy.wait()
        return Answer(daemon.returncode, "", cell.log.read_text(errors="replace")), None
    trainer = (tool("dump_batches"), b"source=" + cell.source, f"socket={socket}", "private=0", *BATCHES, *row.trainer)
    if row.during:
        row.during(daemon)
    answer = cell.run(*trainer, outside=row.trainer_outside)
    ours = daemon.pid if not row.unshare or "fork" not in row.unshare else inner(daemon.pid)
    os.kill(ours, signal.SIGTERM)
    try:
        code = daemon.wait(timeout=HANG)
    except subprocess.TimeoutExpired:
        daemon.kill()
        raise Wrong("the daemon does not end when it is asked to") from None
    if code:
        raise Wrong(f"the daemon ended with {code}: {cell.log.read_text(errors='replace')[-500:]}")
    return answer, trainer_lines(answer)


def inner(pid):
    """The process that unshare --fork waits for."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def act_private(cell):
    """A trainer that finds no daemon, and starts its own."""
    answer = cell.run(tool("dump_batches"), b"source=" + cell.source, *BATCHES, "daemon_memory=128M", "daemon_threads=2", *cell.row.trainer)
    return answer, trainer_lines(answer)


def act_bench(cell):
    """penstock bench, short."""
    answer = cell.run(tool("penstock"), "bench", cell.source, "--seconds", "0.1", "--batch-size", "4", "--image-size", "16", "--memory",
                      "128M", "--json")
    if answer.code:
        return answer, None
    figures = json.loads(answer.out)
    return answer, ("some images", figures["images"] > 0, figures["broken"])


def act_check(cell):
    """penstock check: what it found."""
    answer = cell.run(tool("penstock"), "check", cell.source, "--json")
    if answer.code:
        return answer, None
    figures = json.loads(answer.out)
    return answer, [figures[key] for key in ("samples", "bytes", "classes", "fingerprint", "decoded", "broken")]


def act_pack(cell):
    """penstock pack: the bytes of the tars."""
    answer = cell.run(tool("penstock"), "pack", cell.source, str(cell.home / "out/t-%06d.tar"), "--memory", "128M")
    tars = sorted((cell.home / "out").glob("*.tar"))
    if answer.code:
        if tars and "left out" not in answer.err:
            raise Wrong(f"pack failed and left {tars[0].name} behind")
        return answer, None
    return answer, [hashlib.sha256(tar.read_bytes()).hexdigest() for tar in tars]


def act_python(cell):
    """The Python loader, with a private daemon."""
    answer = cell.run(sys.executable, "-c", PYTHON, cell.source)
    return answer, answer.out.splitlines() if answer.code == 0 else None


ACTIONS = {"daemon": act_daemon, "private": act_private, "bench": act_bench, "check": act_check, "pack": act_pack, "python": act_python}


def python_runs():
    """Why the Python loader cannot be tried here, or ""."""
    answer = subprocess.run([sys.executable, "-c", "import numpy, penstock"], env={**os.environ, "PYTHONPATH": str(BIN.parent / "python")},
                            capture_output=True)
    return answer.stderr.decode(errors="replace").strip().splitlines()[-1] if answer.returncode else ""


# ---- judging ----

def sentence(answer):
    """The last words: of a trainer its `error CODE SENTENCE`, else the last line of stderr."""
    if not answer.err and answer.out.startswith("{"):
        return "; ".join("{path}: {reason}".format(**broken) for broken in json.loads(answer.out).get("broken", []))
    lines = [line for line in (answer.err or "").splitlines() + [x for x in answer.out.splitlines() if x.startswith("error ")] if line.strip()]
    return lines[-1].strip() if lines else ""


def judge(cell, action, answer, got, wanted):
    """"works", or what it says; raises Wrong."""
    row = cell.row
    must = row.says.get(action, row.says.get("*", ""))
    text = answer.err + answer.out
    if answer.code < 0 or answer.code > 2:
        raise Wrong(f"ended with {answer.code}: {text[-1500:]}")
    if row.log and cell.log.exists() and not re.search(row.log, cell.log.read_text(errors="replace")):
        raise Wrong(f"the log does not say /{row.log}/: {cell.log.read_text(errors='replace')[-800:]}")
    if answer.code == 0:
        if row.broken:
            # The trainers in C print rows only.
            if got == wanted or action not in ("daemon", "private") and not re.search("missing|broken sample", text):
                raise Wrong(f"does not say that a sample is missing: {text[-800:]}")
        elif got != wanted:
            raise Wrong(f"other results than undisturbed: {got} instead of {wanted}: {text[-800:]}")
        if must and not must.startswith("?"):
            raise Wrong(f"works, but was to say /{must}/")
        return "works"
    if not must:
        raise Wrong(f"was to work, but ended with {answer.code}: {text[-1500:]}")
    if not re.search(must.lstrip("?"), text):
        raise Wrong(f"was to say /{must}/, but says: {text[-1500:]}")
    return sentence(answer)


def tidy(text, cell):
    """A sentence without this run's folder and numbers."""
    text = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* ", "", text.replace(str(cell.home), "~"))
    return re.sub(r"^error -\d+ ", "", text)


class Matrix:
    def __init__(self, made, home):
        self.made, self.home = made, home
        self.undisturbed, self.cells = {}, []
        self.no_python = python_runs()

    def run_cell(self, row, action, place):
        with tools_for(row.user, "environment_launch") if row.user else contextlib.nullcontext():
            return self.run_cell_with_tools(row, action, place)

    def run_cell_with_tools(self, row, action, place):
        cell = Cell(row, place, self.made)
        try:
            cell.probe(action)
            answer, got = ACTIONS[action](cell)
            said = judge(cell, action, answer, got, self.undisturbed.get(action, got))
            if row.name == "undisturbed":
                self.undisturbed[action] = got
            return tidy(said, cell)
        finally:
            left = end_all()
            if left and sys.exc_info()[0] is None:
                raise Wrong(left)

    def cell(self, row, action):
        place = self.home / "row"
        begin = time.monotonic()
        place.mkdir()
        try:
            said = self.run_cell(row, action, place)
            kind = "works" if said == "works" else "says"
        except Skip as reason:
            kind, said = "skip", str(reason)
        except Wrong as error:
            kind, said = "WRONG", str(error)
        except Exception:
            kind, said = "WRONG", traceback.format_exc()
        finally:
            for cgroup in Path("/sys/fs/cgroup").glob("*/penstock-environment-*"):
                with contextlib.suppress(OSError):  # another matrix's, which is in use
                    cgroup.rmdir()
            subprocess.run(["chmod", "-R", "u+rwx", str(place)], stderr=subprocess.DEVNULL)
            shutil.rmtree(place)
        print(f"{kind:5} {row.name} / {action}{'' if kind == 'works' else ': ' + said} ({time.monotonic() - begin:.1f} s)", flush=True)
        self.cells.append((row, action, kind, said))
        return kind

    def row(self, row, actions):
        for action in actions:
            if action == "python" and self.no_python:
                continue
            if self.cell(row, action) == "skip":
                break

    def count(self, kind):
        return sum(k == kind for _, _, k, _ in self.cells)


def table(cells):
    """The matrix in Markdown: a line for each row, sentences below."""
    names = list(ACTIONS)
    print(f"| environment | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    notes = {}
    for row in dict.fromkeys(id(r) for r, *_ in cells):
        mine = {action: (kind, said) for r, action, kind, said in cells if id(r) == row}
        name = next(r.name for r, *_ in cells if id(r) == row)
        line = []
        for action in names:
            kind, said = mine.get(action, ("", ""))
            if kind == "says":
                line.append(f"says {notes.setdefault(said, len(notes) + 1)}")
            else:
                line.append({"works": "works", "skip": "not here", "": "", "WRONG": "WRONG"}[kind])
        print(f"| {name} | {' | '.join(line)} |")
    print()
    for said, number in notes.items():
        print(f"{number}. {said}")


def all_rows():
    from rows import ROWS
    return ROWS


def told_to_end(number, _frame):
    raise SystemExit(128 + number)


def main():
    signal.signal(signal.SIGTERM, told_to_end)  # what a cell started is ended with it
    wanted = [w for w in sys.argv[1:] if not w.startswith("--")]
    full = NIGHTLY or "--table" in sys.argv
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with folder() as home:
        home.chmod(0o755)
        matrix = Matrix(make_dataset(home / "made", per_class=6, min_side=24, max_side=48), home)
        for action in ACTIONS:
            matrix.row(Row("undisturbed"), (action,))
        if matrix.count("WRONG"):
            sys.exit("what is undisturbed does not work")
        for row in all_rows():
            if wanted and not any(fnmatch.fnmatchcase(row.name, w) for w in wanted):
                continue
            actions = row.only or tuple(ACTIONS)
            matrix.row(row, actions if full or wanted else [a for a in actions if a in row.ci])
    if "--table" in sys.argv:
        table(matrix.cells)
    if matrix.no_python:
        print(f"without the Python loader: {matrix.no_python}")
    figures = f"{len(matrix.cells)} cells: {matrix.count('works')} worked, {matrix.count('says')} said what is missing, " \
              f"{matrix.count('skip')} rows cannot be made here, {matrix.count('WRONG')} wrong"
    print(figures)
    if matrix.count("WRONG"):
        sys.exit(1)
    promise(figures)


if __name__ == "__main__":
    main()
