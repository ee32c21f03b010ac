"""Places with a memory limit, as containers and job schedulers make them."""
import contextlib
import os
import signal
from pathlib import Path

from harness import Skip, wait_until

MIB = 1 << 20


class MemoryLimit:
    """A cgroup of our own below the test's, v1 or v2, with a limit and no swap; where none may be made, the test is skipped and says why."""

    def __init__(self, limit):
        self.limit, self.v1 = limit, False
        self.path = self.make(limit)

    def make(self, limit):
        reasons = []
        for controllers, path in (line.rstrip("\n").split(":", 2)[1:] for line in open("/proc/self/cgroup")):
            v1 = "memory" in controllers.split(",")
            if not v1 and controllers:
                continue
            base = Path("/sys/fs/cgroup/memory" if v1 else "/sys/fs/cgroup")
            place = Path(str(base) + path) / f"penstock-test-{os.getpid()}-{limit // MIB}"
            try:
                place.mkdir()
            except OSError as error:
                reasons.append(str(error))
                continue
            try:
                (place / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(limit))
                swap = place / ("memory.memsw.limit_in_bytes" if v1 else "memory.swap.max")
                if swap.exists():
                    swap.write_text(str(limit if v1 else 0))
                self.v1 = v1
                return place
            except OSError as error:
                reasons.append(str(error))
                place.rmdir()
        raise Skip(f"no cgroup with a memory limit may be made here ({'; '.join(reasons) or 'no memory controller'})")

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def enter(self):
        self.add(os.getpid())

    def prefix(self):
        """The words of a command that runs what follows in here."""
        return ("sh", "-c", f"echo $$ >{self.path}/cgroup.procs; exec \"$@\"", "sh")

    def numbers(self, name):
        """A file of `word number` lines."""
        return {word: int(number) for word, number in (line.split() for line in (self.path / name).read_text().splitlines())}

    def kept(self):
        """Bytes that no reclaiming gives back: anonymous and shared memory, not the page cache."""
        stat = self.numbers("memory.stat")
        return stat["rss" if self.v1 else "anon"] + stat["shmem"]

    def oom_kills(self):
        return self.numbers("memory.oom_control" if self.v1 else "memory.events")["oom_kill"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        def gone():
            for pid in (self.path / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                self.path.rmdir()
            return not self.path.exists()
        wait_until(gone, "the end of all in the cgroup")
