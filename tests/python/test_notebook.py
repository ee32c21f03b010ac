"""What people do in notebooks: interrupt a cell, run it again, leave a loop, forget a loader, kill
the kernel.

A kernel is an interactive Python on a pseudo-terminal: the test types Ctrl-C, and the terminal
turns it into a signal. Another kernel runs code.InteractiveConsole, like consoles within
programs."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import sys
import time
import unittest
from pathlib import Path
from typing import Any, Optional

import support

READY = "[ready]"
INTERACTIVE = [sys.executable, "-q", "-i", "-c", f"import sys; sys.ps1 = {READY!r}"]
INTERACT = "code.InteractiveConsole().interact(banner='', exitmsg='')"
CONSOLE = [sys.executable, "-c", f"import code, sys; sys.ps1 = {READY!r}; {INTERACT}"]

# 192 images, 24 batches of 8. The loop waits at `after`.
BEGIN = """
import gc, json, os, signal, time, penstock
def make(**more):
    return penstock.Loader({source!r}, batch_size=8, image_size=32, framework="numpy", dtype="uint8", seed=3, **more)
def rows(loader):
    return [int(row) for batch in loader.batches() for row in batch.samples["index"]]
loader = make()
"""
EPOCH = 192


class Kernel:
    def __init__(self, command: "list[str]" = INTERACTIVE) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", PYTHON_BASIC_REPL="1", PYTHONSTARTUP="")
            os.execv(command[0], command)
        self.status: Optional[int] = None
        self.until(READY)
        self.cell(BEGIN.format(source=support.dataset(per_class=64)))

    def until(self, word: str) -> str:
        """The output up to and including that word."""
        text, end = "", time.monotonic() + support.LIMIT
        while not text.endswith(word):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise AssertionError(f"waited for {word!r}, and there came {text!r}")
            # One character at a time: the output after the word belongs to the next call.
            text += os.read(self.terminal, 1).decode("utf-8", "replace")
        return text

    def begin(self, code: str) -> None:
        """Types a cell as one line and does not wait for its end."""
        os.write(self.terminal, f"exec({code!r})\n".encode())

    def cell(self, code: str) -> str:
        """Runs a cell to its end. Returns its output."""
        self.begin(code)
        # The terminal also echoes the typed text.
        return self.until(READY).replace("\r", "").split("\n", 1)[-1]

    def value(self, expression: str) -> Any:
        text = self.cell(f"print('<' + json.dumps({expression}) + '>')")
        found = re.search(r"^<(.*)>$", text, re.MULTILINE)
        assert found, text
        return json.loads(found[1])

    def interrupt(self) -> str:
        os.write(self.terminal, b"\x03")
        return self.until(READY)

    def wait(self) -> int:
        if self.status is None:
            self.status = os.waitpid(self.pid, 0)[1]
            os.close(self.terminal)
        return self.status

    def end(self) -> None:
        if self.status is None:
            os.write(self.terminal, b"\x04")
            self.wait()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()


class KilledKernel(unittest.TestCase):
    """Starts before all others, because a daemon waits ten seconds for new clients before it exits.
    It has its own job, so that no other test keeps its daemon alive."""

    kernel: Kernel

    @classmethod
    def start(cls) -> None:
        os.environ["PENSTOCK_JOB"] = "killed"
        cls.kernel = Kernel()
        del os.environ["PENSTOCK_JOB"]
        cls.daemon = cls.kernel.value("loader._stream.daemon_pid")
        # No other test has started yet.
        cls.left = sorted(Path(os.environ["XDG_RUNTIME_DIR"]).glob("penstock/*"))
        cls.kernel.begin("seen = []\nfor batch in loader.batches():\n"
                         "    seen += map(int, batch.samples['index'])\n"
                         "    print('<' + json.dumps([seen, loader.state_dict()]) + '>')\n"
                         "    if len(seen) == 56: time.sleep(600)\n")
        for _ in range(6):
            cls.kernel.until("}]>")
        text = cls.kernel.until("}]>")
        cls.seen, cls.state = json.loads(text[text.rindex("<[[") + 1 : -1])
        cls.kernel.kill()

    def test_1_restarted_kernel_goes_on(self) -> None:
        self.assertEqual(os.WTERMSIG(self.kernel.status or 0), signal.SIGKILL)
        self.assertEqual((len(self.seen), self.state["position"]), (56, 56))
        kernel = Kernel()
        try:
            kernel.cell(f"loader.load_state_dict(json.loads({json.dumps(self.state)!r}))")
            rest = kernel.value("rows(loader)")
            self.assertEqual(sorted(self.seen + rest), list(range(EPOCH)))
            self.assertEqual(self.seen + rest, kernel.value("rows(make())"))
        finally:
            kernel.end()

    def test_2_its_daemon_goes_too(self) -> None:
        support.wait_until(lambda: self.daemon not in support.daemons(), "the end of the killed kernel's daemon")
        self.assertTrue(self.left, "its place was looked for in vain")
        support.wait_until(lambda: not any(path.exists() for path in self.left), "the end of its place")


class Interrupted(unittest.TestCase):
    command = INTERACTIVE

    def setUp(self) -> None:
        self.kernel = Kernel(self.command)

    def tearDown(self) -> None:
        self.kernel.end()
        self.assertEqual(os.waitstatus_to_exitcode(self.kernel.wait()), 0)

    def begin_loop(self, after: str) -> None:
        """A cell that reads up to its third batch, prints a word, and then does `after`."""
        self.kernel.begin("seen = []\nfor batch in loader.batches():\n"
                          "    seen += map(int, batch.samples['index'])\n"
                          f"    if len(seen) == 24:\n        print('th' + 'ere')\n        {after}\n")
        self.kernel.until("there")

    def check_goes_on(self) -> None:
        """After an interruption, no batch that was not delivered is skipped, and the next loop is
        the next epoch."""
        seen, state = self.kernel.value("[seen, loader.state_dict()]")
        self.assertEqual(state["position"], len(seen), "the state is not where the loop is")
        self.assertEqual(self.kernel.value("[loader.state_dict()['epoch'], sorted(rows(loader))]"), [0, list(range(EPOCH))])
        self.assertEqual(self.kernel.value("loader.state_dict()"), {**state, "epoch": 2, "position": 0})
        self.kernel.cell(f"loader.load_state_dict(json.loads({json.dumps(state)!r}))")
        self.assertEqual(sorted(seen + self.kernel.value("rows(loader)")), list(range(EPOCH)))

    def test_in_the_cell_itself(self) -> None:
        self.begin_loop("time.sleep(600)")
        self.assertIn("KeyboardInterrupt", self.kernel.interrupt())
        self.assertEqual(self.kernel.value("len(seen)"), 24)
        self.check_goes_on()

    def test_while_waiting(self) -> None:
        """The daemon is stopped, so that the loop waits as soon as it has the batches that were
        ready."""
        pid = self.kernel.value("loader._stream.daemon_pid")
        try:
            self.begin_loop(f"os.kill({pid}, signal.SIGSTOP)")
            self.wait_for_sleep()
            self.assertIn("KeyboardInterrupt", self.kernel.interrupt())
            self.assertLess(self.kernel.value("len(seen)"), EPOCH, "it did not wait")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.check_goes_on()

    def wait_for_sleep(self) -> None:
        """Waits until the kernel has used no processor time for a while."""
        def used() -> str:
            with open(f"/proc/{self.kernel.pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[11]

        same, before = 0, used()
        while same < 10:
            time.sleep(0.05)
            same, before = (same + 1 if used() == before else 0), used()

    def test_again_and_again(self) -> None:
        self.kernel.begin("print('th' + 'ere')\nwhile True:\n    for images, labels in loader: pass\n")
        self.kernel.until("there")
        for _ in range(5):
            self.assertIn("KeyboardInterrupt", self.kernel.interrupt())
            self.kernel.begin("print('th' + 'ere')\nwhile True:\n    for images, labels in loader: pass\n")
            self.kernel.until("there")
        self.kernel.interrupt()
        self.assertEqual(self.kernel.value("len(rows(loader))"), EPOCH)


class InConsole(Interrupted):
    command = CONSOLE


class Cells(unittest.TestCase):
    def setUp(self) -> None:
        self.kernel = Kernel()

    def tearDown(self) -> None:
        self.kernel.end()
        self.assertEqual(os.waitstatus_to_exitcode(self.kernel.wait()), 0)

    def test_break_then_again(self) -> None:
        self.assertEqual(self.kernel.value("[len(labels) for images, labels in loader][:2]"), [8, 8])
        for epoch in (1, 2):
            self.kernel.cell("for batch in loader.batches():\n    if batch.batch == 2: break\n")
            self.assertEqual(self.kernel.value("[loader.state_dict()[key] for key in ('epoch', 'position')]"), [epoch, 24])
        self.assertEqual(self.kernel.value("sorted(rows(loader))"), list(range(EPOCH)))

    def test_run_again(self) -> None:
        """The new loader is created while the old one, with the same name and in mid-epoch, still
        exists."""
        first = self.kernel.value("rows(make())")
        for _ in range(3):
            self.kernel.cell("loader = make()\nfor images, labels in loader:\n    break\n")
        self.kernel.cell("one, other = make(), make()")
        pairs = self.kernel.value("[[int(a), int(b)] for (_, y), (_, z) in zip(one, other) for a, b in zip(y, z)]")
        self.assertEqual(len(pairs), EPOCH)
        self.assertTrue(all(a == b for a, b in pairs))
        self.assertEqual(self.kernel.value("rows(make())"), first)

    def test_forgotten(self) -> None:
        """A loader without references returns its stream and its memory; a kept batch does not
        change."""
        extents = "sum('memfd:penstock' in line for line in open('/proc/self/maps'))"
        self.kernel.cell("kept = next(iter(loader))[0]\nbefore = int(kept.sum())\n")
        self.assertGreater(self.kernel.value(extents), 0)
        self.kernel.cell("del loader\ngc.collect()\n")
        self.assertEqual(self.kernel.value(extents), 0)
        self.assertTrue(self.kernel.value("before == int(kept.sum())"))

    def test_error_keeps_the_loader(self) -> None:
        """The traceback of a cell that failed holds its iterator; the next loop still works."""
        self.assertIn("ZeroDivisionError", self.kernel.cell("for images, labels in loader:\n    1 / 0\n"))
        self.assertEqual(self.kernel.value("sorted(rows(loader))"), list(range(EPOCH)))


if __name__ == "__main__":
    KilledKernel.start()
    support.main()
