#!/usr/bin/env python3
"""The container image, run by podman as containers are run: another user, a read-only file system, a small /dev/shm, no io_uring.

    tests/image/run.py BUILD SOURCE_DIR [CASE...]

With every commit, the image is made of the build's programs and this system's libraries, where podman is installed. With
PENSTOCK_TEST_NIGHTLY=1 it is built from config/Dockerfile as it stands, on a base image that debootstrap makes (network and root), and
config/kubernetes runs as pods (pods.py). Exit status 77: podman is not installed or starts no container here."""
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import engine

BUILD, TOP = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
NIGHTLY = os.environ.get("PENSTOCK_TEST_NIGHTLY") == "1"
USER = 12345  # has no account, in the image or elsewhere
SOCKET = "/run/penstock/penstock.sock"
STREAM = "image_size=32 batch_size=8 train=1 epochs=2 seed=3 reconnect_ms=60000 timeout_ms=120000".split()
HARDENED = (f"--user={USER}:0", "--read-only", "--read-only-tmpfs=false", "--shm-size=64k", "--cap-drop=all",
            "--security-opt=no-new-privileges", "--network=none")
# Two seccomp profiles, two answers: Docker's EPERM, podman's ENOSYS.
HIDDEN = r"io_uring is (hidden here by seccomp|forbidden here \(seccomp)"


def batches(text):
    return [line for line in text.splitlines() if line[:1].isdigit()]


class Case(unittest.TestCase):
    """What all cases share: the image, a dataset, and the batches of it that a trainer gets without containers."""
    room = engine = data = expected = None

    @classmethod
    def prepare(cls):
        """Raises engine.Absent where no container can be started."""
        cls.engine = engine.Engine(cls.room)
        if NIGHTLY and not os.geteuid():
            # The next run of this build takes the same base image.
            took = cls.engine.make_from_dockerfile(TOP, BUILD, BUILD / "image-base.tar")
            print(f"config/Dockerfile: built in {took:.0f} s", flush=True)
        else:
            cls.engine.make_from_build(BUILD)
        cls.engine.try_starting()
        cls.data = cls.room / "data"
        subprocess.run([BUILD / "bin/make_dataset", cls.data, "--classes", "3", "--per-class", "20"], check=True, stdout=subprocess.DEVNULL)
        cls.expected = cls.alone()
        assert len(cls.expected) == 14, cls.expected

    @classmethod
    def alone(cls, *keys):
        """The batches that a trainer gets without containers."""
        home = Path(tempfile.mkdtemp(prefix="h", dir=cls.room))
        environment = {**os.environ, "PENSTOCKD": str(BUILD / "bin/penstockd"), "PENSTOCK_SOCKET": str(home / "s/s"), "XDG_CACHE_HOME": str(home),
                       "XDG_STATE_HOME": str(home)}
        done = subprocess.run([BUILD / "bin/dump_batches", f"source={cls.data}", "private=1", *STREAM, *keys], check=True, stdout=subprocess.PIPE,
                              text=True, env=environment)
        subprocess.run([BUILD / "bin/penstock", "stop"], check=True, env=environment, stdout=subprocess.DEVNULL)
        return batches(done.stdout)

    def remove(self, *names):
        self.addCleanup(self.engine.podman, "rm", "--force", "--time=0", *names, check=False)


class Containers(Case):
    def folders(self):
        """For the socket, the cache and the recorder; `:U` gives them to the container's user."""
        folder = Path(tempfile.mkdtemp(prefix="f", dir=self.room))
        folder.chmod(0o755)
        for name in ("socket", "cache", "state"):
            (folder / name).mkdir(mode=0o700)
        return folder

    def start_daemon(self, folder, *options, name="d"):
        self.remove(name)
        limit = [] if os.geteuid() else ["--memory=512m"]  # rootless podman may set none under cgroups of version 1
        self.engine.podman(
            "run", "--detach", f"--name={name}", *HARDENED, *limit, f"--volume={folder}/socket:/run/penstock:U", f"--volume={folder}/cache:/cache:U",
            f"--volume={folder}/state:/state:U", f"--volume={self.data}:/data:ro", f"--env=PENSTOCK_SOCKET={SOCKET}", "--env=XDG_CACHE_HOME=/cache",
            "--env=XDG_STATE_HOME=/state", "penstock", "penstockd", "--root=/data", *options)
        self.engine.ready(name)

    def start_trainer(self, folder, *keys, name="t"):
        self.remove(name)
        self.engine.podman("run", "--detach", f"--name={name}", *HARDENED, f"--volume={folder}/socket:/run/penstock:ro",
                           f"--env=PENSTOCK_SOCKET={SOCKET}", "trainer", "dump_batches", "source=/data", *STREAM, *keys)

    def test_the_page_has_these_options(self):
        page = (TOP / "docs/guides/containers.md").read_text(encoding="utf-8").split()
        for option in HARDENED:
            self.assertIn(option, page)

    def refused(self, *words):
        """A container that ends with an error; what it said."""
        done = self.engine.podman("run", "--rm", *words, check=False)
        self.assertIn(done.returncode, (1, 2), done.stderr)
        return done.stdout + done.stderr

    def test_daemon_and_trainer(self):
        """In two containers. The daemon's is killed in mid-epoch and started again: no batch is lost or repeated."""
        folder = self.folders()
        self.start_daemon(folder)
        self.start_trainer(folder, "sleep_ms=200")
        self.engine.until(lambda: len(batches(self.engine.logs("t"))) >= 3, "three batches", "t")
        status = self.engine.podman("exec", "d", "penstock", "status")
        self.assertRegex(" ".join(status.split()), "reader pread .*" + HIDDEN)
        self.engine.podman("kill", "--signal=KILL", "d")
        self.engine.until(lambda: self.engine.state("d")[0] == "exited", "the daemon to be gone")
        self.assertEqual(self.engine.state("t")[0], "running")
        self.engine.podman("start", "d")
        self.engine.until(lambda: self.engine.state("t")[0] == "exited", "the trainer to end", "t")
        self.assertEqual(self.engine.state("t")[1], 0, self.engine.logs("t"))
        self.assertEqual(batches(self.engine.logs("t")), self.expected)
        log = self.engine.logs("d")
        self.assertRegex(log, r"reader: pread \(16 threads\): " + HIDDEN)
        self.assertIn("system calls filtered (seccomp)", log)
        self.assertIn("flight recorder: /state/penstock/recorder-", log)
        if not os.geteuid():
            # A quarter of 512 MiB.
            self.assertRegex(log, r"memory: 12[0-9]\.\d MiB = ")
        mounts = self.engine.podman("exec", "d", "cat", "/proc/mounts")
        self.assertRegex(mounts, r"/dev/shm tmpfs \S*size=64k")
        self.engine.podman("stop", "--time=20", "d")
        self.assertEqual(self.engine.state("d"), ("exited", 0), self.engine.logs("d"))
        self.assertIn("penstockd ends", self.engine.logs("d"))

    def test_any_user_without_settings(self):
        """Nothing is mounted but the data: the socket and the cache are in /tmp."""
        self.remove("u")
        self.engine.podman("run", "--detach", "--name=u", "--network=none", f"--user={USER}:0", "--shm-size=64k", f"--volume={self.data}:/data:ro",
                           "trainer", "penstockd", "--memory=64M")
        self.engine.ready("u")
        said = self.engine.podman("exec", "u", "dump_batches", "source=/data", *STREAM)
        self.assertEqual(batches(said), self.expected)
        self.engine.podman("exec", "u", "sh", "-ec", f"for index in /tmp/penstock-{USER}/cache/*.idx; do cat $index >/dev/null; done")
        self.assertRegex(self.engine.logs("u"), r"warning: cannot create the flight recorder's folder /\.local/state/penstock: .*; set recorder")

    def test_what_is_missing_is_named(self):
        plain = ("--network=none", f"--user={USER}:0")
        self.assertRegex(self.refused(*plain, "penstock", "penstockd", "--reader=io_uring"), "error: .*" + HIDDEN)
        self.assertIn(f"the folder of the socket /tmp/penstock-{USER}/penstock.sock cannot be made, because the file system is read-only: mount a volume there",
                      self.refused(*HARDENED, "penstock"))
        folder = self.folders()
        (folder / "socket").chmod(0o777)
        self.assertIn("it must be yours alone (mode 0700)",
                      self.refused(*plain, f"--volume={folder}/socket:/run/penstock:U", f"--env=PENSTOCK_SOCKET={SOCKET}", "penstock"))

    def test_a_trainer_without_a_daemon(self):
        """It may not write to the socket's folder, so it cannot start a daemon in its own memory."""
        folder = self.folders()
        trainer = (*HARDENED, f"--volume={folder}/socket:/run/penstock:ro,U", "trainer", "dump_batches", "source=/data")
        for path, words in ((SOCKET, "because its folder is read-only: start the daemon first"),
                            ("/run/penstock/own/s", "the socket's folder /run/penstock/own is read-only: start the daemon first")):
            said = self.refused(f"--env=PENSTOCK_SOCKET={path}", *trainer)
            self.assertIn(f"no penstockd is running at {path}, and none can be started here", said)
            self.assertIn(words, said)

    def test_a_folder_that_kubernetes_made(self):
        """An emptyDir is open to all and has the setgid bit of fsGroup. The daemon's own folder below it is not."""
        folder = self.folders()
        self.remove("e")
        (folder / "socket").chmod(0o2777)
        self.engine.podman("run", "--detach", "--name=e", *HARDENED, f"--volume={folder}/socket:/run/penstock",
                           "--env=PENSTOCK_SOCKET=/run/penstock/socket/penstock.sock", "penstock", "penstockd", "--memory=64M", "--recorder=off")
        self.engine.ready("e")
        self.assertEqual(self.engine.podman("exec", "e", "stat", "-c", "%a", "/run/penstock/socket").strip()[-3:], "700")


@unittest.skipUnless(NIGHTLY and not os.geteuid(), "PENSTOCK_TEST_NIGHTLY=1, as root")
class Rootless(unittest.TestCase):
    def test_rootless(self):
        """The cases above as a user of this system who has identifiers for containers."""
        names = [line.split(":")[0] for line in Path("/etc/subuid").read_text(encoding="utf-8").splitlines()] if Path("/etc/subuid").exists() else []
        accounts = [account for account in pwd.getpwall() if account.pw_uid and account.pw_name in names]
        if not accounts or not shutil.which("newuidmap"):
            self.skipTest("/etc/subuid names no user of this system, or newuidmap is not installed (Debian: apt-get install uidmap)")
        account = accounts[0]
        with tempfile.TemporaryDirectory(prefix="pkr-", dir="/var/tmp") as home:
            os.chown(home, account.pw_uid, account.pw_gid)
            environment = {"PATH": os.environ["PATH"], "HOME": home, "XDG_RUNTIME_DIR": home, "USER": account.pw_name, "LOGNAME": account.pw_name}
            done = subprocess.run(["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups", sys.executable, Path(__file__).resolve(), BUILD, TOP,
                                   "Containers"], check=False, cwd="/", env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip())
        self.assertEqual(done.returncode, 0, done.stdout)
        print(f"rootless, as {account.pw_name}: {done.stdout.strip().splitlines()[-1]}", flush=True)


if NIGHTLY:
    from pods import Pods  # noqa: E402,F401  pylint: disable=wrong-import-position


def main():
    Case.room = Path(tempfile.mkdtemp(prefix="pki-", dir="/var/tmp"))  # a short path: podman puts sockets there
    Case.room.chmod(0o755)
    try:
        Case.prepare()
        result = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False).result
    except engine.Absent as why:
        print(f"skipped: {why}")
        sys.exit(77)
    finally:
        if Case.engine:
            Case.engine.close()
        shutil.rmtree(Case.room, ignore_errors=True)
    if result.wasSuccessful() and NIGHTLY:
        print(f"promise: {result.testsRun} cases of containers and pods, {len(result.skipped)} skipped")
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
