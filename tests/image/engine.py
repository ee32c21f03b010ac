"""podman with a store of its own, and the image `penstock` in it: of config/Dockerfile, or of a build's programs.

Nothing is taken from a registry of images. The base image is what debootstrap makes, by the name that config/Dockerfile has for it."""
import io
import os
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

BASE = "debian:12"
# As the base image of a registry has it.
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOOLS = ("sh", "sleep", "cat", "mkdir", "chown", "stat")
# For machines on which podman's defaults start no container: cgroups of both versions, limits that cannot be raised.
CAREFUL = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""


class Absent(Exception):
    """Why no container can be started here."""


class Engine:
    def __init__(self, room):
        if not shutil.which("podman"):
            raise Absent("podman is not installed (Debian: apt-get install podman runc)")
        self.room = Path(room)
        self.options = ["--root", str(self.room / "store"), "--runroot", str(self.room / "run"), "--tmpdir", str(self.room / "tmp")]
        self.environment = dict(os.environ)

    def podman(self, *words, check=True, limit=180, **keys):
        """Standard output; where podman fails, all that it said is the error."""
        done = subprocess.run(["podman", *self.options, *map(str, words)], env=self.environment, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=limit, text=True, **keys)
        if check and done.returncode:
            raise AssertionError(f"podman {' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout if check else done

    def careful(self):
        path = self.room / "containers.conf"
        path.write_text(CAREFUL, encoding="ascii")
        self.environment["CONTAINERS_CONF"] = str(path)

    def try_starting(self):
        """With podman's defaults, or with those above. Raises Absent where neither starts a container."""
        said = ""
        for change in (lambda: None, self.careful):
            change()
            done = self.podman("run", "--rm", "--network=none", "penstock", "penstockd", "--version", check=False)
            if done.returncode == 0:
                return
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise Absent(f"podman starts no container here: {said}")

    # ---- images

    def make_from_build(self, build):
        """From a build's programs and this system's libraries, in a second."""
        programs = {f"usr/local/bin/{name}": build / "bin" / name for name in ("penstockd", "penstock", "dump_batches")}
        programs.update({f"usr/bin/{name}": Path(shutil.which(name)) for name in TOOLS})
        files = dict(programs)
        for program in programs.values():
            for path in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout):
                loader = Path(path).name.startswith("ld-linux")
                files[path.lstrip("/") if loader else f"usr/local/lib/{Path(path).name}"] = Path(path)
        archive = self.room / "image.tar"
        with tarfile.open(archive, "w") as tar:
            for folder, mode in (("tmp", 0o1777), ("etc", 0o755), ("run", 0o755)):
                one = tarfile.TarInfo(folder)
                one.type, one.mode = tarfile.DIRTYPE, mode
                tar.addfile(one)
            for name, path in files.items():
                data = path.resolve().read_bytes()
                one = tarfile.TarInfo(name)
                one.size, one.mode = len(data), 0o755
                tar.addfile(one, io.BytesIO(data))
            for link, to in (("bin", "usr/bin"), ("lib", "usr/local/lib")):
                one = tarfile.TarInfo(link)
                one.type, one.linkname = tarfile.SYMTYPE, to
                tar.addfile(one)
        self.podman("import", "--quiet", "-c", f"ENV {PATH}", "-c", "ENV LD_LIBRARY_PATH=/usr/local/lib", "-c", 'CMD ["penstockd"]', archive, "penstock")
        archive.unlink()
        self.podman("tag", "penstock", "trainer")

    def make_base(self, kept):
        """The base image, by debootstrap from the mirror that this system's apt has, or as it was kept."""
        if not kept.exists():
            self.bootstrap(kept)
        self.podman("import", "--quiet", "-c", f"ENV {PATH}", "-c", 'CMD ["bash"]', kept, BASE)

    def bootstrap(self, ret_archive):
        if os.geteuid() or not shutil.which("debootstrap"):
            raise Absent(f"debootstrap, which makes the base image {BASE}, is not installed, or this user is not root")
        targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Codename: bookworm"], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout.split()
        if not targets:
            raise Absent("apt has no mirror of Debian 12")
        root = self.room / "base"
        done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(root), targets[0]], check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise Absent(f"debootstrap cannot make Debian 12 (no network?): {done.stdout[-300:]}")
        for settings in Path("/etc/apt/apt.conf.d").glob("99*"):  # how this machine reaches the mirror
            shutil.copy(settings, root / "etc/apt/apt.conf.d")
        new = ret_archive.with_suffix(".new")
        with tarfile.open(new, "w") as tar:
            tar.add(root, ".")
        new.rename(ret_archive)
        shutil.rmtree(root)

    def make_from_dockerfile(self, top, build, base):
        """As the page says it, with the network that apt needs. And an image FROM it, with the trainer of these tests."""
        self.make_base(base)
        careful = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000", "--runtime=runc"] if shutil.which("runc") else []
        begin = time.monotonic()
        self.podman("build", "--network=host", "--pull=never", *careful, "-t", "penstock", "-f", "config/Dockerfile", ".", limit=3600, cwd=top)
        took = time.monotonic() - begin
        context = self.room / "trainer"
        context.mkdir()
        shutil.copy(build / "bin/dump_batches", context)
        (context / "Dockerfile").write_text("FROM penstock\nCOPY dump_batches /usr/local/bin/\n", encoding="ascii")
        self.podman("build", "--pull=never", "-t", "trainer", context)
        return took

    # ---- containers

    def state(self, name):
        """(running, exited, ...; the exit status)"""
        status, code = self.podman("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", name).split()
        return status, int(code)

    def logs(self, name):
        done = self.podman("logs", name, check=False)
        return done.stdout + done.stderr

    def until(self, holds, what, name=None, within=90):
        end = time.monotonic() + within
        while not holds():
            assert time.monotonic() < end, f"waited {within} s for {what}\n{self.logs(name) if name else ''}"
            time.sleep(0.1)

    def ready(self, name):
        """Waits until the daemon in a container answers, as the probes of config/kubernetes ask it."""
        self.until(lambda: self.podman("exec", name, "penstock", "status", check=False).returncode == 0, f"{name} to answer", name)

    def close(self):
        for words in (("pod", "rm", "--all", "--force", "--time=0"), ("rm", "--all", "--force", "--time=0"), ("volume", "prune", "--force")):
            self.podman(*words, check=False)
        if os.geteuid():  # files of other users of the namespace
            self.podman("unshare", "rm", "-rf", self.room, check=False)
        for _ in range(5):
            mounts = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines() if str(self.room) in line]
            for mount in sorted(mounts, reverse=True):
                subprocess.run(["umount", mount], check=False, stderr=subprocess.DEVNULL)
            if not mounts:
                break
