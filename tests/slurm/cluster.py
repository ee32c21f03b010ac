"""A Slurm cluster of several nodes on one machine: munged, slurmctld and a slurmd for each node, all in one folder.

The nodes have this machine's name and address and ports of their own, so `srun -N2` starts tasks "on" both. Processes are
tracked by /proc (proctrack/linuxproc) and memory is polled and enforced by slurmd (OverMemoryKill): containers that run tests
may not make cgroups. Slurm starts only as root, because slurmd sets the user of each job."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue", "scancel")
SILENT = 30  # seconds
SEARCH = "/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", "")


def missing():
    """Why no cluster can be started here; None: one can."""
    for program in PROGRAMS:
        if not shutil.which(program, path=SEARCH):
            return f"{program} is not installed (Debian: apt-get install slurm-wlm munge)"
    if os.geteuid() != 0:
        return "Slurm's daemons need root here"
    private = ["unshare", "--mount", "--propagation", "private", "mount", "--bind", "/var/tmp", "/tmp"]
    done = subprocess.run(private, check=False, capture_output=True, text=True)
    return f"no mount namespace for each node: {done.stderr.strip()}" if done.returncode else None


def free_ports(count):
    """Ports that nothing listens on now."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def below_tmp(paths):
    """Those of some folders that are below /tmp, without those that are in another one of them."""
    found = []
    for path in sorted(str(Path(path).resolve()) for path in paths):
        if path.startswith("/tmp/") and not any(path == other or path.startswith(other + "/") for other in found):
            found.append(path)
    return found


class Cluster:
    """`shared`: folders of programs and files that jobs use, as a file system that all nodes have."""

    def __init__(self, folder, nodes=2, cpus=32, memory=32000, shared=()):
        self.folder, self.shared = Path(folder), shared
        self.nodes = [f"n{number + 1}" for number in range(nodes)]
        self.cpus, self.memory = cpus, memory
        self.running = {}
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": SEARCH}

    def configure(self):
        host, (controller, *ports) = socket.gethostname().split(".")[0], free_ports(1 + len(self.nodes))
        lines = [
            "ClusterName=penstock", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={controller}", "SlurmUser=root", "SlurmdUser=root",
            "AuthType=auth/munge", "CredType=cred/munge", f"AuthInfo=socket={self.folder}/munge.socket",
            f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool-%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid", f"SlurmdPidFile={self.folder}/slurmd-%n.pid",
            f"SlurmctldLogFile={self.folder}/slurmctld.log", f"SlurmdLogFile={self.folder}/slurmd-%n.log",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none", "SwitchType=switch/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory", "SlurmdParameters=config_overrides",
            "JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=1", "JobAcctGatherParams=OverMemoryKill",
            "SchedulerType=sched/builtin", "ReturnToService=2", "InactiveLimit=0", "KillWait=5", "MinJobAge=86400", "JobRequeue=1",
            # A node that does not answer for so many seconds is down.
            "SlurmctldTimeout=300", f"SlurmdTimeout={SILENT}", "OverTimeLimit=0",
        ]
        for weight, (name, port) in enumerate(zip(self.nodes, ports), start=1):  # of nodes that are free, the first ones are taken
            lines.append(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={self.cpus} RealMemory={self.memory} "
                         f"Weight={weight} State=UNKNOWN")
        lines.append(f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n", encoding="ascii")

    def start(self, name, *command):
        with open(self.folder / f"{name}.out", "wb") as output:
            # In a group of its own: stop() must not end the tests with it.
            self.running[name] = subprocess.Popen(command, env=self.environment, stdout=output, stderr=subprocess.STDOUT,
                                                  start_new_session=True)

    def __enter__(self):
        for name in ("state", *(f"spool-{node}" for node in self.nodes), *(f"tmp-{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "munge.key").write_bytes(os.urandom(1024))
        os.chmod(self.folder / "munge.key", 0o400)
        self.configure()
        where = {name: str(self.folder / f"munge.{name}") for name in ("socket", "key", "pid", "seed", "log")}
        self.start("munged", "munged", "--foreground", "--force", f"--socket={where['socket']}", f"--key-file={where['key']}",
                   f"--pid-file={where['pid']}", f"--seed-file={where['seed']}", f"--log-file={where['log']}")
        self.until(Path(where["socket"]).exists, "munged to listen")
        self.start("slurmctld", "slurmctld", "-D")
        for node in self.nodes:
            self.start_node(node)
        self.until(lambda: self.states().count("idle") == len(self.nodes), "all nodes to be idle")
        return self

    def __exit__(self, *ignored):
        if "slurmctld" in self.running:
            self.run("scancel", "--full", "--user=root", check=False)
            self.until(lambda: not self.run("squeue", "--noheader", check=False).strip(), "jobs to end", within=30, fatal=False)
        for name in reversed(list(self.running)):
            one = self.running.pop(name)
            for how in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(one.pid, how)
                    one.wait(10)
                    break
                except ProcessLookupError:
                    break
                except subprocess.TimeoutExpired:
                    continue

    def own(self, node):
        """What a node has as /tmp."""
        return self.folder / f"tmp-{node}"

    def start_node(self, node):
        """In a mount namespace with a /tmp of its own, as each node has. Folders below /tmp that the jobs run from stay there."""
        own = self.own(node)
        kept = [f"mkdir -p '{own}{path[4:]}' && mount --bind '{path}' '{own}{path[4:]}' && " for path in below_tmp(self.shared)]
        self.start(node, "unshare", "--mount", "--propagation", "private", "sh", "-c",
                   f"{''.join(kept)}mount --rbind '{own}' /tmp && exec slurmd -D -N {node}")

    def processes(self, node):
        """{pid: its environment} of slurmd, and of the steps of jobs and their daemons on a node."""
        space, found = os.readlink(f"/proc/{self.running[node].pid}/ns/mnt"), {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/mnt") == space:
                    found[int(pid)] = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return found

    def daemons(self, job, node):
        """The pids of a job's daemons on a node, without those of the processes that watch over them."""
        found = []
        for pid, environment in self.processes(node).items():
            with contextlib.suppress(OSError):
                if f"SLURM_JOB_ID={job}".encode() in environment and Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") == "penstock-serve\n":
                    found.append(pid)
        return found

    def kill_node(self, node):
        """SIGKILL to all of its processes, as if its power had failed: they stop first, so none can report another's end."""
        for pid in (self.running[node].pid, *self.processes(node)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        while True:
            pids = [pid for pid in self.processes(node) if pid != self.running[node].pid]  # slurmd is last: its namespace is the node's
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.running[node].kill()
        self.running.pop(node).wait()

    def boot_node(self, node):
        """After kill_node(): with an empty /tmp."""
        shutil.rmtree(self.own(node))
        self.own(node).mkdir()
        self.start_node(node)
        self.until(lambda: self.node_state(node) == "IDLE", f"{node} to be idle again")

    def node_state(self, node):
        found = re.search(r"State=(\S+)", self.run("scontrol", "show", "node", node, check=False))
        return found.group(1) if found else "GONE"

    def run(self, *command, check=True, **keys):
        done = subprocess.run(command, env=self.environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **keys)
        assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stdout}"
        return done.stdout

    def states(self):
        return self.run("sinfo", "--noheader", "--Node", "--format=%T", check=False).split()

    def until(self, holds, what, within=60, fatal=True):
        end = time.monotonic() + within
        while not holds():
            if time.monotonic() > end:
                logs = "" if not fatal else "\n".join(
                    f"--- {path.name}\n{path.read_text(encoding='utf-8', errors='replace')[-1500:]}"
                    for path in sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out")))
                assert not fatal, f"waited {within} s for {what}\n{logs}"
                return False
            time.sleep(0.1)
        return True

    # ---- jobs

    def submit(self, script, *options, cwd):
        found = re.search(r"Submitted batch job (\d+)", self.run("sbatch", *options, str(script), cwd=cwd))
        assert found
        return found.group(1)

    def requeue(self, *jobs):
        """Ends jobs and has them start again soon."""
        for job in jobs:
            self.run("scontrol", "requeue", job)
        self.start_again(*jobs)

    def start_again(self, *jobs):
        """Requeued jobs start again soon: Slurm would wait two minutes. Within the second in which a job ended, a node refuses it,
        because credentials of that second are revoked."""
        for job in jobs:
            self.until(lambda job=job: self.state(job) == "PENDING", f"job {job} to be pending", within=60 + 4 * SILENT)
        for job in jobs:
            self.run("scontrol", "update", f"JobId={job}", "TimeLimit=60", "StartTime=now+3", check=False)

    def state(self, job):
        found = re.search(r"JobState=(\w+)", self.run("scontrol", "show", "job", job, check=False))
        return found.group(1) if found else "GONE"

    def wait(self, job, *wanted, within=240):
        self.until(lambda: self.state(job) in wanted, f"job {job} to be {' or '.join(wanted)}", within)
        return self.state(job)
