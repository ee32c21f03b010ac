"""Several nodes on one machine: a network namespace for each, with a name and an address of its own on one bridge, whose own
address the machine has. Needs root."""
import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path


def call(*command, check=True):
    done = subprocess.run([str(part) for part in command], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 or not check, f"{' '.join(map(str, command))}: {done.stdout}"
    return done


def missing():
    """Why no nodes can be made here; None: they can."""
    for program in ("ip", "unshare"):
        if not shutil.which(program):
            return f"{program} is not installed (Debian: apt-get install iproute2 util-linux)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Network(1):
            return None
    except AssertionError as error:
        return f"no network namespaces here: {error}"


def free_subnet():
    """10.X.Y of a /24 to which this machine has no route yet."""
    routes = call("ip", "-4", "route", "show", "table", "all").stdout
    taken = {line.split(".")[1] for line in routes.replace("local ", "").replace("broadcast ", "").splitlines() if line.startswith("10.")}
    second = next(number for number in range(77, 250) if str(number) not in taken)
    return f"10.{second}.{os.getpid() % 250}"


class Network:
    def __init__(self, nodes):
        self.tag = f"pk{os.getpid() % 1000000}"
        self.nodes = [f"n{number + 1}" for number in range(nodes)]

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.remove)
            subnet = free_subnet()
            self.head = f"{subnet}.1"
            self.address = {node: f"{subnet}.{11 + number}" for number, node in enumerate(self.nodes)}
            call("ip", "link", "add", self.tag, "type", "bridge")
            call("ip", "address", "add", f"{self.head}/24", "dev", self.tag)
            call("ip", "link", "set", self.tag, "up")
            for node in self.nodes:
                self.add(node)
            stack.pop_all()
        return self

    def add(self, node):
        outside = f"{self.tag}{node}"
        call("ip", "netns", "add", self.space(node))
        call("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", self.space(node))
        call("ip", "link", "set", outside, "master", self.tag, "up")
        for link in (("address", "add", f"{self.address[node]}/24", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
            call("ip", "-netns", self.space(node), *link)

    def __exit__(self, *ignored):
        self.remove()

    def remove(self):
        for node in self.nodes:
            self.kill(node)
            call("ip", "netns", "delete", self.space(node), check=False)
            call("ip", "link", "delete", f"{self.tag}{node}", check=False)
        call("ip", "link", "delete", self.tag, check=False)

    def space(self, node):
        return f"{self.tag}-{node}"

    def start(self, node, script, folder, environment, log):
        """Runs a shell script on a node; returns its process, which is also the one that the caller waits for."""
        inside = f"hostname {node} && cd {folder} && . {script}"
        with open(log, "ab") as out:
            return subprocess.Popen(["ip", "netns", "exec", self.space(node), "unshare", "--uts", "bash", "-c", inside], env=environment,
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    def processes(self, node):
        return [int(pid) for pid in call("ip", "netns", "pids", self.space(node), check=False).stdout.split() if pid.isdigit()]

    def kill(self, node):
        """kill -9 of everything that runs on a node, as when its power fails: nothing there can say goodbye."""
        end = time.monotonic() + 20
        while pids := self.processes(node):
            assert time.monotonic() < end, f"{node}: processes {pids} do not end"
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


def blocks(page, language="sh"):
    """The fenced blocks of a page."""
    found, inside = [], None
    for line in Path(page).read_text(encoding="utf-8").splitlines():
        if inside is None and line == f"```{language}":
            inside = []
        elif inside is not None and line == "```":
            found.append("\n".join(inside) + "\n")
            inside = None
        elif inside is not None:
            inside.append(line)
    return found
