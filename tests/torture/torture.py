"""Every fallible call of a daemon is made to fail, once and from then on, while it starts, serves and ends.

    torture.py SCENARIO...          all scenarios of scenarios.py without a name
        --every N  --offset K       every N-th case, from the K-th
        --sample N                  about so many cases of each scenario
        --phase start|first|serve|stop
        --names                     the scenarios' names
        --only TEXT                 cases whose name contains it, and what they did is said
        --list                      the cases
        --found                     those that were mended
        --counts                    by the how-manyth call instead of by the place that it came from

A case is PHASE CALL EFFECT once|on PLACE. Places are noted in an undisturbed run: the five innermost callers tell one from another, so that
the five hundredth of the same malloc is not a case of its own. Expected of each case:

  - the daemon starts and serves, or ends with code 1 or 2 and a sentence;
  - each row that arrives is that of the undisturbed run, or flagged; a stream that ends early ends with a sentence;
  - nothing waits for ever: what stands still while the fault lasts is told, and goes on after it;
  - with the fault gone the same work gives the same rows, and descriptors, mappings, threads, reservations and pieces of the heap are no more
    than before.

Only the standard library."""
import argparse
import collections
import contextlib
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / d) for d in ("e2e", "faults", "inject")]
import harness  # noqa: E402
from faults import FIGURES, Watch  # noqa: E402
from harness import ROOT, Daemon, HungUp, Link, Raw, folder, promise  # noqa: E402
from inject import LIBRARY, Inject  # noqa: E402
from scenarios import INVALID, SUBSTITUTED, Hung, Outcome, all_of, fill  # noqa: E402

STALL = 5 * harness.SLOW  # seconds without a word; more than any scenario takes
FIRST = dict(re.findall(r"X\((\w+), (E\w+)\)", (ROOT / "tests/inject/inject.h").read_text()))
MORE = {"read": ["short", "zero", "EINTR"], "pread": ["short", "zero", "EINTR"], "write": ["short", "EINTR", "EIO"], "pwrite": ["short", "EIO"],
        "recv": ["zero", "EINTR"], "recvmsg": ["zero", "EINTR", "ECONNRESET"], "send": ["EAGAIN", "EPIPE"], "sendmsg": ["EAGAIN", "EPIPE", "EINTR"],
        "completion_read": ["EAGAIN", "zero", "short", "EINTR"], "completion_open": ["EAGAIN", "EMFILE", "EACCES"], "open": ["EACCES", "EIO"],
        "accept": ["ECONNABORTED", "ENOMEM"], "uring_submit": ["EBUSY", "EINTR"], "uring_init": ["EPERM", "ENOSYS", "EMFILE"],
        "fallocate": ["EINTR", "EOPNOTSUPP"], "bind": ["EADDRINUSE"], "mmap": ["EPERM"]}
NEVER_ON = {"EINTR", "ECONNRESET", "ECONNABORTED"}  # nothing is interrupted for ever; these are said once
# Not these, when they fail from then on: without epoll nothing is served, and the process that would say so is the event loop itself.
NOT_ON = {"epoll_wait", "poll"}

GONE = {"EPIPE", "ECONNRESET", "zero"}  # of a socket: that is how a peer ends

# libseccomp 2.5.4 writes through what its own calloc did not give, frees memory twice, or turns for ever, while it makes a filter of the
# rules: the daemon dies before it serves. glibc 2.36 reads through a null pointer, or fails an assertion of its own, when it has no memory for its
# table of name services, which the daemon has it make before it confines itself. Nothing of ours can be done there.
DIES_IN = ("libseccomp", "at nss_database.c")
DEATHS = ("ended with SIGSEGV", "free(): double free detected", "nss_database_reload_1: Assertion")

# libyaml 0.2.5 loses the stack of a mapping's or list's items when its document has no room for the node. It is freed by nobody else.
LOSES_IN = "yaml_stack_extend"

Case = collections.namedtuple("Case", "phase call effect on site first place")


def name_of(case):
    return f"{case.phase} {case.call} {case.effect} {'on' if case.on else 'once'} {case.place}"


# What was found and mended: each must hold, and be a case still. Scenario, and a pattern of the case's name.
FOUND = (("start", r"start epoll_ctl ENOMEM once loop_watch "), ("start", r"serve epoll_ctl ENOMEM once loop_watch .*client_"),
         ("folder", r"serve sendmsg ENOBUFS once conn_send .* < lease_send "), ("folder_fresh", r"serve malloc ENOMEM once .* < opening_try "),
         ("folder", r"serve uring_submit EAGAIN on ring_"))


class Finding(Exception):
    pass


# ---- one daemon that is tortured ----

class OwnThreads(Watch):
    """The kernel's own workers of a ring go seconds after their last work, and are threads of the process until then.

    The fault may meet the connection that watches, when the daemon looks once more whether it has said something: then it is made anew."""

    def __init__(self, daemon):
        super().__init__(daemon)
        self.socket = daemon.socket

    def status(self):
        try:
            return super().status()
        except (ConnectionError, HungUp):
            self.raw.socket.close()
            self.raw = Raw(self.socket)
            return super().status()

    def figures(self):
        fds, memfds, _, *rest = super().figures()
        names = []
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                names.append((task / "comm").read_text())
        return fds, memfds, sum(not n.startswith("iou-wrk") for n in names), *rest


class Session:
    """A daemon of a scenario, with a watch; `inject` may be armed already."""

    def __init__(self, scenario, home, inject):
        self.scenario, self.home, self.inject, self.watch = scenario, home, inject, None
        self.log_read = 0
        (home / "log").unlink(missing_ok=True)
        self.daemon = Daemon(home, *scenario.options, config=scenario.config, expect_start=False,
                             environment={**inject.environment(), "MALLOC_ARENA_MAX": "1", **scenario.environment})

    def started(self):
        """Waits for its socket; False when it ended instead, with a code and a sentence that are as they should be."""
        end = time.monotonic() + STALL
        while not self.daemon.listens():
            if self.daemon.process.poll() is not None:
                self.ended(self.daemon.process.wait())
                return False
            if time.monotonic() > end:
                raise Finding("neither serves nor ends:\n" + self.threads())
            time.sleep(0.004)
        return True

    def ended(self, code):
        if code not in (1, 2):
            raise Finding(f"ended with {signal.Signals(-code).name if code < 0 else code}: {self.tail()}")
        if not sentence(self.tail().rsplit("error: ", 1)[-1] if "error: " in self.tail() else self.tail()):
            raise Finding(f"ended with {code} and said nothing of why: {self.tail()!r}")

    def gave_up(self):
        """Whether it has ended by itself, which is checked, or is about to."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.ended(self.daemon.process.wait(timeout=STALL))
            self.kill()
            return True
        return False

    def tail(self):
        return self.daemon.text()[-1500:]

    def work(self):
        """The scenario's work, once; its outcome. With a word of how when it stood still."""
        outcome = Outcome()
        self.scenario.reset(self.home)
        try:
            self.scenario.act(self.daemon, outcome)
        except (TimeoutError, subprocess.TimeoutExpired):
            raise Hung("work") from None
        except (ConnectionError, HungUp) as error:
            outcome.errors["link"] = f"({type(error).__name__})"
        return outcome

    def alive(self):
        code = self.daemon.process.poll()
        if code is not None:
            raise Finding(f"died: {signal.Signals(-code).name if code < 0 else code}: {self.tail()}")

    def settle(self):
        """The figures that all must come back to."""
        self.watch = OwnThreads(self.daemon)
        self.watch.settle()
        self.live = self.inject.live()

    def figures(self):
        """Waits until all is back; a finding when something is left."""
        end = time.monotonic() + STALL
        while True:
            now = self.watch.figures()
            if all(a <= b for a, b in zip(now, self.watch.baseline)) and not self.watch.status()["streams"]:
                return
            if time.monotonic() > end:
                raise Finding(f"left over: {dict(zip(FIGURES, zip(self.watch.baseline, now)))}")
            time.sleep(0.004)

    def threads(self):
        """Where its threads stand."""
        pid = self.daemon.process.pid
        if shutil.which("gdb"):
            out = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 10"], capture_output=True, text=True).stdout
            return "\n".join(line for line in out.splitlines() if line.startswith("Thread") or "/daemon/" in line)
        texts = []
        for task in Path(f"/proc/{pid}/task").iterdir():
            for file in "comm", "wchan", "stack":
                try:
                    texts.append((task / file).read_text().strip())
                except OSError:
                    pass
        return "\n".join(texts)

    def stop(self):
        """SIGTERM; it must end with 0. A scenario that drains has somebody read meanwhile."""
        reader = Link(self.daemon.socket) if getattr(self.scenario, "drained", False) and self.daemon.process.poll() is None else None
        if reader:
            stream = reader.open(**self.scenario.definition())
            try:
                stream.release(stream.next())
            except (harness.Refused, HungUp):
                pass
        if self.watch:
            self.watch.close()
        if self.daemon.process.poll() is None:
            self.daemon.process.send_signal(signal.SIGTERM)
        if reader:
            try:
                stream.read()
            except (harness.Refused, HungUp, ConnectionError):
                pass
            reader.close()
        try:
            code = self.daemon.process.wait(timeout=5 + 2 * STALL)
        except subprocess.TimeoutExpired:
            where = self.threads()
            self.kill()
            raise Finding("does not end:\n" + where) from None
        self.daemon.out.close()
        if code != 0:
            raise Finding(f"asked to end, it ended with {signal.Signals(-code).name if code < 0 else code}: {self.tail()}")

    def kill(self):
        if self.daemon.process.poll() is None:
            self.daemon.process.kill()
            self.daemon.process.wait()
        self.daemon.out.close()
        if self.watch:
            self.watch.close()


# ---- what is expected ----

def sentence(text):
    """Whether it says something."""
    text = text.strip()
    return len(text.split()) >= 3 and not re.search(r"\(null\)|Success|Unknown error|error 0\b", text)


def check_rows(name, want, got):
    for i, (a, b) in enumerate(zip(want, got)):
        if a != b and not (len(b) > 4 and isinstance(b[2], int) and b[2] & (SUBSTITUTED | INVALID) and a[:2] == b[:2]):
            raise Finding(f"{name}: row {i} is {b}, undisturbed it is {a}")
    if len(got) > len(want):
        raise Finding(f"{name}: {len(got)} rows instead of {len(want)}")


def check(want, got, logged):
    """`got` beside the undisturbed outcome. `logged`: what the daemon has said meanwhile; it may explain a connection that is closed."""
    for name, rows in want.rows.items():
        check_rows(name, rows, got.rows.get(name, []))
        if len(got.rows.get(name, [])) < len(rows) and name not in got.errors and not (set(got.errors) & {"link", name}):
            raise Finding(f"{name}: {len(got.rows.get(name, []))} of {len(rows)} rows, and no error: {got.errors}")
    for name, text in want.said.items():
        if got.said.get(name) != text and name not in got.errors and not got.errors:
            raise Finding(f"{name}: {got.said.get(name)} instead of {text}, and no error")
    for name, text in got.errors.items():
        if name in want.errors and want.errors[name] == text:
            continue
        # Whoever asks for a page is no trainer: without memory libmicrohttpd closes its connection.
        if text.startswith("(") and not name.startswith("/") and not re.search(r" (warning|error): ", logged):
            raise Finding(f"{name}: {text}, and the log says nothing of why")
        if not text.startswith("(") and not sentence(text):
            raise Finding(f"{name}: no sentence: {text!r}")


def same(want, got, unserved=False):
    """`unserved`: there may be no page for as long as this daemon lives, since it could not be begun, which the log says."""
    check(want, got, "")
    new = {n: e for n, e in got.errors.items() if not (unserved and n.startswith("/"))}
    if new:
        raise Finding(f"with the fault gone: {new}")
    for name, rows in want.rows.items():
        if got.rows[name] != rows:
            raise Finding(f"with the fault gone: {name}: other rows, or flags")


# ---- cases ----

def cases_of(inject, phase, sites):
    """All cases of the places that were noted in a phase."""
    inject.learn(frames for _, frames in sites.values())
    for (call, number), (_, frames) in sorted(sites.items()):
        place = " < ".join(inject.places(frames, 3))
        for effect in [FIRST[call], *MORE.get(call, [])]:
            yield Case(phase, call, effect, False, number, 1, place)
            if effect not in NEVER_ON and call not in NOT_ON:
                yield Case(phase, call, effect, True, number, 1, place)


def cases_by_count(phase, before, after):
    """The n-th call of each name, for each n; from there on for some."""
    for call in sorted(after):
        count = after[call] - before.get(call, 0)
        for n in range(1, count + 1):
            yield Case(phase, call, FIRST[call], False, 0, n, f"{n} of {count}")
            if call not in NOT_ON and FIRST[call] not in NEVER_ON and (n < 4 or n % max(1, count // 16) == 0):
                yield Case(phase, call, FIRST[call], True, 0, n, f"{n} of {count}")


class Torture:
    """A scenario, what it gives undisturbed, and its cases."""

    def __init__(self, scenario, home, by_count=False):
        self.scenario, self.home, self.by_count = scenario, home, by_count
        self.findings, self.runs, self.stalls, self.known = [], 0, 0, 0
        self.session = None
        self.inject = Inject(home / "inject", "penstockd")
        self.cases = list(self.undisturbed())

    def phase(self, phase, before):
        sites, counts = self.inject.sites(), self.inject.counts()
        self.inject.forget_sites()
        if self.by_count:
            return list(cases_by_count(phase, before, counts)), counts
        return list(cases_of(self.inject, phase, sites)), counts

    def undisturbed(self):
        """Runs the work twice: what is made once is made the first time."""
        self.inject.collect()
        session = Session(self.scenario, self.home, self.inject)
        assert session.started(), session.tail()
        self.inject.check()
        start, counts = self.phase("start", {})
        session.work()
        first, counts = self.phase("first", counts)
        self.want = session.work()
        assert not self.want.errors, self.want.errors
        serve, counts = self.phase("serve", counts)
        session.settle()
        session.stop()
        stop, counts = self.phase("stop", counts)
        self.inject.collect(False)
        known = {c[1:] for c in serve}
        return start + [c for c in first if c[1:] not in known or self.by_count] + serve + stop

    def arm(self, case):
        self.inject.arm(case.call, case.effect, case.first, case.on, case.site)

    # -- a case --

    def run(self, case):
        self.runs += 1
        before = self.inject.failed()
        try:
            getattr(self, f"run_{case.phase}")(case)
        except (Finding, Hung, AssertionError, OSError, ValueError) as error:
            if (any(death in str(error) for death in DEATHS) or isinstance(error, Hung) and "calls_load" in self.session.threads()) \
                    and any(library in case.place for library in DIES_IN):
                self.known += 1
                self.end_session()
                return 1
            what = f"hung: {error}\n{self.session.threads()}" if isinstance(error, Hung) and self.session else f"{type(error).__name__}: {error}"
            self.findings.append((case, what))
            print(f"FINDING {self.scenario.name}: {name_of(case)}\n    {what}\n    failed: {self.inject.failures()[-2:]}", flush=True)
            self.end_session()
        finally:
            self.inject.disarm()
        return self.inject.failed() - before

    def end_session(self):
        if self.session:
            self.session.kill()
            self.session = None

    def fresh(self):
        """A daemon that has not been disturbed and has done its work before."""
        if not self.session:
            self.session = Session(self.scenario, self.home, self.inject)
            assert self.session.started(), self.session.tail()
            for _ in range(2):
                same(self.want, self.session.work())
            self.session.settle()
        return self.session

    def disturbed(self, session, case):
        """The work while the fault is there. What stands still must go on when it has gone."""
        said = len(session.daemon.text())
        try:
            outcome = session.work()
        except Hung:
            if not case.on:
                raise
            where = session.threads()
            self.stalls += 1
            print(f"{self.scenario.name}: stood still: {name_of(case)}", flush=True)
            self.inject.disarm()
            if not re.search(r" (warning|error): ", session.daemon.text()[said:]):
                raise Finding("it stands still, and the log says nothing of why:\n" + where) from None
            return
        # A peer that has gone is nothing to write a line about.
        gone = " error: " if case.effect in GONE else ""
        # Nor does the log say for ever what it has said of others.
        text = session.daemon.text()
        check(self.want, outcome, (text if " is disconnected: " in text else text[said:]) + gone)

    def recovered(self, session):
        self.inject.disarm()
        session.alive()
        same(self.want, session.work(), unserved="metrics and the page: " not in session.daemon.text())

    def run_serve(self, case):
        session = self.fresh()
        self.arm(case)
        self.disturbed(session, case)
        self.recovered(session)
        session.figures()
        self.heap(session, case)

    def heap(self, session, case):
        """Pieces that stay must not become more each time that it happens."""
        if session.inject.live() <= session.live:
            return
        seen = [session.inject.live()]
        for _ in range(3):
            self.arm(case)
            self.disturbed(session, case)
            self.recovered(session)
            session.figures()
            seen.append(session.inject.live())
        if all(b > a for a, b in zip(seen, seen[1:])) and not case.place.startswith(LOSES_IN):
            raise Finding(f"pieces of the heap: {session.live} before, then {seen}")
        session.live = seen[-1]

    def run_start(self, case):
        self.end_session()
        self.arm(case)
        self.session = Session(self.scenario, self.home, self.inject)
        if self.session.started():
            self.young(case)
        else:
            self.end_session()

    def young(self, case):
        """A daemon that listens may still be starting, and give up."""
        session = self.session
        try:
            self.disturbed(session, case)
            self.recovered(session)
        except (Finding, ConnectionError):
            if session.gave_up():
                self.session = None
                return
            raise
        session.stop()
        self.session = None

    def run_first(self, case):
        """What a daemon does once: armed between its start and its first work."""
        self.end_session()
        self.session = Session(self.scenario, self.home, self.inject)
        assert self.session.started(), self.session.tail()
        self.arm(case)
        self.young(case)

    def run_stop(self, case):
        self.end_session()
        session = self.session = Session(self.scenario, self.home, self.inject)
        assert session.started(), session.tail()
        session.work()
        session.settle()
        self.arm(case)
        session.stop()
        self.session = None

    def close(self):
        self.end_session()
        self.inject.close()


def choose(cases, arguments, known):
    """What is to be run of them. Daemons start and end alike: what another scenario has made fail then is not tried again."""
    cases = [c for c in cases if arguments.only in name_of(c) and c.phase.startswith(arguments.phase) and not (c.site and c.phase in ("start", "stop") and c[:-1] in known)]
    every = max(1, -(-len(cases) // arguments.sample)) if arguments.sample else arguments.every
    return cases[arguments.offset % every::every]


def choose_found(scenario, cases):
    """Of what was found in this scenario."""
    chosen = []
    for pattern in (p for name, p in FOUND if name == scenario):
        matching = [c for c in cases if re.match(pattern, name_of(c))]
        assert matching, f"{scenario}: no case is like {pattern} any more"
        chosen += matching
    return chosen


def torture(scenario, arguments, home, known):
    begin = time.monotonic()
    one = Torture(scenario, home, arguments.counts)
    failed = 0
    try:
        chosen = choose_found(scenario.name, one.cases) if arguments.found else choose(one.cases, arguments, known)
        if arguments.list:
            print("\n".join(map(name_of, chosen)))
            return one, len(chosen), 0
        # Those of one daemon together: it is used again.
        for case in sorted(chosen, key=lambda c: c.phase):
            if one.run(case):
                failed += 1
                known.add(case[:-1])
    finally:
        one.close()
    places = len({(c.call, c.site) for c in one.cases})
    print(f"{scenario.name}: {places} places, {len(one.cases)} cases, {one.runs} run here, {failed} calls failed, {one.stalls} stood still while it "
          f"lasted, {one.known} died in a library, {len(one.findings)} findings, {time.monotonic() - begin:.0f} s", flush=True)
    return one, len(chosen), failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--phase", default="")
    parser.add_argument("--found", action="store_true")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--counts", action="store_true")
    arguments = parser.parse_args()
    if arguments.names:
        return print(";".join(all_of(Path("FILES"))))
    if not LIBRARY.exists():
        print("no libpenstock_inject.so in this build")
        sys.exit(77)
    if arguments.found and not shutil.which("addr2line"):
        print("no addr2line: places have no names")
        sys.exit(77)
    findings = runs = calls = 0
    known = set()
    with folder() as files:
        fill(files)
        harness.LIMIT = STALL
        scenarios = all_of(files)
        for name in arguments.scenario or (dict(FOUND) if arguments.found else scenarios):
            with folder() as home:
                one, cases, failed = torture(scenarios[name], arguments, home, known)
                findings, runs, calls = findings + len(one.findings), runs + one.runs, calls + failed
    if findings:
        sys.exit(f"{findings} findings")
    promise(f"{runs} runs, {calls} calls failed: refused or served, no row wrong or missing, nothing left")


if __name__ == "__main__":
    main()
