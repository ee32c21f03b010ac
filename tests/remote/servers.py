"""Real servers on loopback, for tests: SeaweedFS and rclone speak S3 and check its signatures; nginx and HAProxy serve ranges and TLS.

Each is a context manager that skips the test, with a word, where its program is not installed (scripts/install-deps does that).
Ports are free ones; data is in a folder of its own and goes with it.

Only the standard library."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import LIMIT, ROOT, Skip, folder  # noqa: E402

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDLOOPBACK", "AWS_SECRET_ACCESS_KEY": "loopback/secret+key"}


def program(name):
    """Where scripts/install-deps or Debian put a program."""
    for place in (ROOT / ".venv-remote/bin", Path("/usr/sbin"), Path("/usr/bin")):
        if os.access(place / name, os.X_OK):
            return str(place / name)
    found = shutil.which(name)
    if not found:
        raise Skip(f"no {name}: scripts/install-deps installs it")
    return found


def free_ports(count):
    """Free ports, also 10,000 above each."""
    ports = []
    while len(ports) < count:
        with contextlib.ExitStack() as stack:
            one, above = (stack.enter_context(socket.socket()) for _ in range(2))
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port > 50000 or port in ports:
                continue
            try:
                above.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
            ports.append(port)
    return ports


@contextlib.contextmanager
def running(command, ready, log, environment=None, end_by=signal.SIGTERM):
    """The process until the block ends; `ready` says whether it answers."""
    with open(log, "wb") as out:
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                   env={**os.environ, **(environment or {})})
    try:
        end = time.monotonic() + LIMIT
        while not ready():
            assert process.poll() is None, (command[0], Path(log).read_text(errors="replace")[-2000:])
            assert time.monotonic() < end, (command[0], "does not answer", Path(log).read_text(errors="replace")[-2000:])
            time.sleep(0.05)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, end_by)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answers(url):
    def ready():
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status > 0
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
    return ready


@contextlib.contextmanager
def rclone():
    """(endpoint, folder): each folder below `folder` is a bucket."""
    binary, (port,) = program("rclone"), free_ports(1)
    with folder() as home:
        (home / "data/bucket").mkdir(parents=True)
        command = [binary, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", ",".join(KEYS.values()), "--config", home / "none.conf",
                   "--vfs-cache-mode", "off", "--no-checksum", home / "data"]
        with running(command, answers(f"http://127.0.0.1:{port}/"), home / "log"):
            yield f"http://127.0.0.1:{port}", home / "data"


@contextlib.contextmanager
def seaweedfs(volumes=8, volume_mb=64, bind="127.0.0.1"):
    """The endpoint of an empty store with the bucket "bucket". bind="0.0.0.0": also at this machine's other addresses."""
    binary = program("weed")
    master, volume, filer, s3 = free_ports(4)
    with folder() as home:
        (home / "data").mkdir()
        identity = {"name": "test", "credentials": [{"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}],
                    "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
        (home / "s3.json").write_text(json.dumps({"identities": [identity]}))
        command = [binary, "-logtostderr=true", "server", f"-dir={home}/data", "-ip=127.0.0.1", f"-ip.bind={bind}", f"-master.port={master}",
                   f"-volume.port={volume}", f"-volume.max={volumes}", f"-master.volumeSizeLimitMB={volume_mb}", "-filer", f"-filer.port={filer}", "-s3",
                   f"-s3.port={s3}", f"-s3.config={home}/s3.json", "-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
        try:
            with running(command, answers(f"http://127.0.0.1:{s3}/"), home / "log", {"HOME": str(home)}, signal.SIGKILL):
                yield f"http://127.0.0.1:{s3}"
        finally:
            # It makes sockets in /tmp, whatever TMPDIR says, and leaves them there.
            for port in (master, volume, filer, s3):
                for one in (port, port + 10000):
                    for left in Path("/tmp").glob(f"seaweedfs-*-{one}.sock"):
                        left.unlink(missing_ok=True)


@contextlib.contextmanager
def nginx(more="access_log off;"):
    """(http URL, https URL, certificate, folder) of a web server of files. `more`: of its configuration."""
    binary, (plain, tls) = program("nginx"), free_ports(2)
    with folder() as home:
        (home / "data").mkdir()
        home.chmod(0o755)
        subprocess.run([program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", home / "key.pem", "-out", home / "cert.pem"],
                       check=True, capture_output=True, timeout=LIMIT)
        user = "user root;" if os.geteuid() == 0 else ""
        (home / "nginx.conf").write_text(
            f"{user} daemon off; worker_processes 1; pid {home}/pid; error_log {home}/error;\nevents {{}}\nhttp {{ {more}\n"
            + "".join(f" {kind}_temp_path {home}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
            + f"\n server {{ listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl; ssl_certificate {home}/cert.pem; ssl_certificate_key {home}/key.pem;"
            f" root {home}/data; }} }}\n")
        with running([binary, "-p", home, "-c", home / "nginx.conf", "-e", home / "error"], answers(f"http://127.0.0.1:{plain}/"), home / "log"):
            yield f"http://127.0.0.1:{plain}", f"https://localhost:{tls}", home / "cert.pem", home / "data"


@contextlib.contextmanager
def haproxy(backend):
    """The URL of a proxy before `backend` ("http://127.0.0.1:PORT") that lets 4 requests through at once."""
    binary, (port,) = program("haproxy"), free_ports(1)
    with folder() as home:
        (home / "haproxy.cfg").write_text(
            "global\n  maxconn 256\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n"
            f"frontend in\n  bind 127.0.0.1:{port}\n  default_backend out\nbackend out\n  server one {backend.removeprefix('http://')} maxconn 4\n")
        with running([binary, "-db", "-f", home / "haproxy.cfg"], answers(f"http://127.0.0.1:{port}/"), home / "log"):
            yield f"http://127.0.0.1:{port}"
