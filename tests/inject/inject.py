"""Calls of a program under test that are made to fail while it runs: the other side of inject.h, whose layout this repeats.

    inject = Inject(home / "inject", "penstockd")
    daemon = Daemon(home, environment=inject.environment())
    inject.arm("pread", "EIO", persistent=True)
    ...
    inject.disarm()
    print(inject.failures()[-1])

Only the standard library."""
import ctypes
import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import BIN  # noqa: E402

LIBRARY = BIN / "libpenstock_inject.so"
SPECIAL = {"short": -1, "zero": -2}
CALLS, RULES, FRAMES, FAILED, MODULES, SITES = 96, 8, 12, 64, 64, 1 << 14
MAGIC = 0x3154434A4E49
EVER = (1 << 64) - 1


class Count(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 24), ("count", ctypes.c_uint64), ("failed", ctypes.c_uint64)]


class Rule(ctypes.Structure):
    _fields_ = [("call", ctypes.c_char * 24), ("path", ctypes.c_char * 104), ("seen", ctypes.c_uint64), ("first", ctypes.c_uint64),
                ("last", ctypes.c_uint64), ("site", ctypes.c_uint64), ("effect", ctypes.c_int32), ("on", ctypes.c_uint32)]


class Frame(ctypes.Structure):
    _fields_ = [("module", ctypes.c_uint32), ("offset", ctypes.c_uint32)]


class Failure(ctypes.Structure):
    _fields_ = [("call", ctypes.c_uint32), ("effect", ctypes.c_int32), ("site", ctypes.c_uint64), ("pid", ctypes.c_uint32),
                ("tid", ctypes.c_uint32), ("frames", Frame * FRAMES)]


class Site(ctypes.Structure):
    _fields_ = [("hash", ctypes.c_uint64), ("count", ctypes.c_uint64), ("call", ctypes.c_uint32), ("ready", ctypes.c_uint32),
                ("frames", Frame * FRAMES)]


class Module(ctypes.Structure):
    _fields_ = [("state", ctypes.c_uint32), ("path", ctypes.c_char * 252)]


class Shared(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_uint64), ("sizes", ctypes.c_uint32 * 6), ("collect", ctypes.c_uint32), ("depth", ctypes.c_uint32),
                ("failures", ctypes.c_uint64), ("live", ctypes.c_int64), ("live_bytes", ctypes.c_int64), ("count", Count * CALLS), ("rule", Rule * RULES), ("failure", Failure * FAILED),
                ("module", Module * MODULES), ("site", Site * SITES)]


KNOWN = {}  # (path, offset): words


def lines_of(path, offsets):
    """Fills KNOWN: FUNCTION at FILE:LINE, of the innermost that was not put in place; FILE+OFFSET where addr2line is absent."""
    offsets = sorted({o for o in offsets if (path, o) not in KNOWN})
    out = []
    if offsets and shutil.which("addr2line"):
        asked = "".join(f"{o:#x}\n" for o in offsets)
        out = subprocess.run(["addr2line", "-fsCe", path], input=asked, capture_output=True, text=True).stdout.split("\n")
    for i, offset in enumerate(offsets):
        name, line = out[2 * i:2 * i + 2] if len(out) > 2 * i + 1 else ("??", "??")
        where = f"{os.path.basename(path)}+{offset:#x}"
        KNOWN[path, offset] = where if name == "??" else f"{name} ({where})" if line.startswith("??") else f"{name} at {line.split(' ')[0]}"


class Inject:
    """`path` is made, or made anew. `program`: the name of the one to be tortured, or all that inherit the environment."""

    def __init__(self, path, program=None):
        self.path, self.program = Path(path), program
        with open(self.path, "wb+") as file:
            file.truncate(ctypes.sizeof(Shared))
            self.memory = mmap.mmap(file.fileno(), ctypes.sizeof(Shared))
        self.shared = Shared.from_buffer(self.memory)

    def close(self):
        del self.shared
        self.memory.close()

    def environment(self, log=None):
        words = {"LD_PRELOAD": str(LIBRARY), "PENSTOCK_INJECT_FILE": str(self.path)}
        if self.program:
            words["PENSTOCK_INJECT_PROGRAM"] = self.program
        if log:
            words["PENSTOCK_INJECT_LOG"] = str(log)
        return words

    def check(self):
        """That the program runs with a library of this layout."""
        assert self.shared.magic == MAGIC, "libpenstock_inject.so was not loaded"
        assert list(self.shared.sizes) == [CALLS, RULES, FAILED, MODULES, SITES, FRAMES], list(self.shared.sizes)

    # ---- rules ----

    def arm(self, call, effect, first=1, persistent=False, site=0, path="", last=None, rule=0):
        """From now on the `first` such call fails, or all from there on, or up to `last`. `effect`: an errno's number, its name, short or
        zero."""
        import errno
        number = effect if isinstance(effect, int) else SPECIAL[effect] if effect in SPECIAL else getattr(errno, effect)
        self.disarm(rule)
        at = self.shared.rule[rule]
        at.call, at.path, at.seen = call.encode(), str(path).encode(), 0
        at.first, at.last, at.site, at.effect = first, last or (EVER if persistent else first), site, number
        at.on = 1

    def disarm(self, rule=None):
        for i in range(RULES) if rule is None else [rule]:
            self.shared.rule[i].on = 0

    def seen(self, rule=0):
        """How many calls the rule was for since it was armed."""
        return self.shared.rule[rule].seen

    # ---- counts ----

    def counts(self):
        """{call: how often} of those that happened."""
        return {c.name.decode(): c.count for c in self.shared.count if c.count}

    def failed(self):
        """How many calls were made to fail."""
        return self.shared.failures

    def live(self):
        """Pieces of the heap that the program holds."""
        return self.shared.live

    def collect(self, on=True, depth=5):
        self.shared.depth = depth
        self.shared.collect = int(on)

    def sites(self):
        """{(call, number): (how often, place)} of all places that were noted."""
        names = [c.name.decode() for c in self.shared.count]
        return {(names[s.call], s.hash): (s.count, [(f.module, f.offset) for f in s.frames]) for s in self.shared.site if s.hash and s.ready}

    def forget_sites(self):
        ctypes.memset(ctypes.addressof(self.shared.site), 0, ctypes.sizeof(self.shared.site))

    # ---- places ----

    def learn(self, many):
        """Finds the words of many places at once."""
        wanted = {}
        for frames in many:
            for module, offset in frames:
                if module:
                    wanted.setdefault(module, []).append(offset)
        for module, offsets in wanted.items():
            lines_of(self.shared.module[module - 1].path.decode(), offsets)

    def places(self, frames, most=FRAMES):
        """Of frames, pairs of a module's number and an offset, the callee's caller first, in words."""
        self.learn([frames[:most]])
        return [KNOWN[self.shared.module[module - 1].path.decode(), offset] for module, offset in frames[:most] if module]

    def failures(self):
        """The latest calls that were made to fail, in words."""
        names = [c.name.decode() for c in self.shared.count]
        total = self.shared.failures
        return [f"{names[f.call]} -> {f.effect} in {f.pid}: " + " < ".join(self.places([(g.module, g.offset) for g in f.frames], 6))
                for f in (self.shared.failure[i % FAILED] for i in range(max(0, total - FAILED), total))]
