"""stage: what the parts of tests/gpu/run share: where things are, how a command is run within the time that is left, what was found.

Only the standard library. Every process that is started here runs in a session of its own and is ended with it."""
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIP = 77
TORCH_S = 100  # for importing PyTorch the first time, from a disk that nobody has read, besides what the first part took
GRACE_S = 3  # between asking a process to end and ending it
START_S = 10  # for a daemon that has to be started again


CMAKE_LEAST = (3, 25)
# Programs that building needs, any of several; and libraries, by pkg-config's names: with Debian's packages for them.
NEEDED = {("cmake",): "cmake", ("ninja", "make"): "make", ("cc", "gcc", "clang"): "gcc", ("c++", "g++", "clang++"): "g++",
          ("pkg-config",): "pkg-config", ("nvcc",): None}
MODULES = {"libjpeg": "libjpeg-dev", "libpng": "libpng-dev", "zlib": "zlib1g-dev", "libxxhash": "libxxhash-dev", "liburing": "liburing-dev",
           "yaml-0.1": "libyaml-dev", "jansson": "libjansson-dev", "freetype2": "libfreetype-dev fonts-dejavu-core"}


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Overran(Exception):
    def __init__(self, sentence, text=""):
        super().__init__(sentence)
        self.text = text  # what the command had written


def end_group(process):
    """Ends a process with all that it started, or what it left when it ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def name_of(command):
    """The program that a command starts, by way of env or not."""
    words = [str(word) for word in command]
    return Path(next(word for word in words if word != "env" and "=" not in word)).name


def last_words(text):
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("FAILED: ")]
    return (told or lines or ["no word"])[-1][:400]


class Stage:
    def __init__(self, args, work, gpu=None):
        self.root, self.work = ROOT, work
        self.gpu = not args.without_gpu
        self.bundle = args.bundle.resolve() if args.bundle else None
        self.build = args.build.resolve()
        self.given_bin = args.bin
        self.bin = args.bin.resolve() if args.bin else self.build / "bin"
        self.cores = len(os.sched_getaffinity(0))
        self.capability, self.gpu_name = gpu or (None, None)  # "90"
        self.python = None  # an interpreter that has PyTorch, as soon as that is known
        self.painted = self.photographs = None
        self.daemon_rate = self.model_rate = None
        self.daemon_process, self.daemon_memory = None, 0
        self.log, self.end = None, 0.0  # of the part that runs
        self.figures = []
        self.environment = self._environment()

    def _environment(self):
        environment = {**os.environ, "PENSTOCK_SOCKET": str(self.work / "run/s.sock"), "XDG_CACHE_HOME": str(self.work / "cache"),
                       "XDG_STATE_HOME": str(self.work / "state"),
                       "PENSTOCKD": str(self.bin / "penstockd"),
                       "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("LOCAL_RANK", None)
        cuda = Path(environment.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
        environment["PATH"] = f"{environment.get('PATH', '')}:{cuda}"
        if self.bundle:
            environment.pop("PKG_CONFIG_PATH", None)
            environment.update(PKG_CONFIG_LIBDIR=str(self.bundle / "lib/pkgconfig"), LIBRARY_PATH=str(self.bundle / "lib"),
                               C_INCLUDE_PATH=str(self.bundle / "include"))
        return environment

    def pkg_config(self):
        """The bundle's pkg-config, as a program that runs from anywhere."""
        program = self.work / "pkg-config"
        if not program.exists():
            copied = self.work / "pkgconf"
            shutil.copy(self.bundle / "bin/pkg-config", copied)
            copied.chmod(0o755)
            program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{self.bundle}/bin" exec "{copied}" "$@"\n')
            program.chmod(0o755)
        return program

    def has_library(self, module):
        """Whether pkg-config finds it, in the bundle or on this machine."""
        program = self.pkg_config() if self.bundle else self.which("pkg-config")
        return bool(program) and self.attempt(program, "--exists", module)[1] == 0

    def which(self, *names):
        """The first of these programs that this machine has."""
        return next(filter(None, (shutil.which(name, path=self.environment["PATH"]) for name in names)), None)

    def lacks(self):
        """What building needs and this machine does not have: in words, and Debian's packages for it."""
        words, packages = [], []
        for names, package in NEEDED.items():
            if not self.which(*names) and (self.gpu or "nvcc" not in names) and not (self.bundle and "pkg-config" in names):
                words.append(" or ".join(names))
                packages.append(package)
        version = re.search(r"version ([0-9.]+)", subprocess_text(self.which("cmake") or "cmake", "--version"))
        if version and tuple(map(int, version.group(1).split(".")[:2])) < CMAKE_LEAST:
            words.append(f"CMake {'.'.join(map(str, CMAKE_LEAST))} (this is {version.group(1)}: python3 -m pip install cmake)")
        if self.bundle or self.which("pkg-config"):
            for module, package in MODULES.items():
                # A bundle has the letters that FreeType would render.
                if not self.has_library(module) and not (self.bundle and module == "freetype2"):
                    words.append(f"the headers of {module}")
                    packages.append(package)
        return words, [package for package in packages if package]

    def generator(self):
        return "Ninja" if self.which("ninja") else "Unix Makefiles"

    def program(self, name):
        path = self.bin / name
        if not path.exists():
            raise Failed(f"{name} was not built")
        return path

    def fake_driver(self):
        """The folder of the fake driver of tests/cuda, where it was built: for trying the programs without a GPU."""
        folder = self.bin.parent / "tests/cuda/driver"
        return folder if (folder / "libcuda.so.1").exists() else None

    def pick(self, with_gpu, with_stand_ins):
        """What differs: how much is done. The way is the same."""
        return with_gpu if self.gpu else with_stand_ins

    def skip_without_driver(self):
        raise Skipped("needs a GPU (and the fake driver of tests/cuda was not built)")

    def on_device(self, name):
        """How a program that needs a driver is started: without a GPU, with the fake one."""
        if self.gpu:
            return [self.program(name)]
        return ["env", f"LD_LIBRARY_PATH={self.fake_driver() or self.skip_without_driver()}", self.program(name)]

    def with_toolkit(self, name):
        """How a program is started that needs the toolkit's libraries: these open more of their kind while they run, by name alone. First come
        those that it was linked with: elsewhere there may be other releases."""
        ask = "import glob, nvidia; print(':'.join(path for root in nvidia.__path__ for path in glob.glob(root + '/*/lib')))"
        places = [*self.linked(), self.environment.get("LD_LIBRARY_PATH"), self.environment.get("CUDA_HOME", "/usr/local/cuda") + "/lib64",
                  first_line(self.python, "-c", ask) if self.python else None]
        return ["env", "LD_LIBRARY_PATH=" + ":".join(place for place in places if place), self.program(name)]

    def linked(self):
        """The folders of cuDNN and cuBLAS that CMake found."""
        cache = self.bin.parent / "CMakeCache.txt"
        text = cache.read_text() if cache.exists() else ""
        found = re.findall(r"^PENSTOCK_(?:CUDNN|CUBLAS)_LIBRARY:FILEPATH=(/.+)$", text, re.MULTILINE)
        return list(dict.fromkeys(str(Path(path).parent) for path in found))

    # ---- commands ----

    def attempt(self, *command):
        """Runs it within the part's time; what it wrote (to both), and its exit code."""
        command = [str(word) for word in command]
        left = self.end - time.monotonic()
        self.log.write(f"$ {' '.join(command)}\n")
        self.log.flush()
        begin = os.fstat(self.log.fileno()).st_size
        # A file, not a pipe: whoever is left behind and holds a pipe's end would hold this up.
        with tempfile.TemporaryFile(dir=self.work) as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=self.log, env=self.environment,
                                       start_new_session=True, cwd=self.work)
            overran = False
            try:
                process.wait(max(0.1, left))
            except subprocess.TimeoutExpired:
                overran = True
            finally:
                end_group(process)
            out.seek(0)
            text = out.read().decode(errors="replace")
        if overran:
            self.log.write(text + "\n(ended: out of time)\n")
            raise Overran(f"{name_of(command)} was ended: last word: {last_words(text)}", text)
        errors = self.logged_from(begin) if process.returncode else ""
        self.log.write(text)
        self.log.flush()
        return text + errors, process.returncode

    def logged_from(self, place):
        with open(self.log.name, "rb") as log:
            log.seek(place)
            return log.read().decode(errors="replace")

    def run(self, *command):
        """What it wrote to its output; Failed with its last words unless it ended well."""
        text, code = self.attempt(*command)
        self.ended(name_of(command), text, code)
        return text

    @staticmethod
    def ended(program, text, code):
        if code == SKIP:
            raise Skipped(last_words(text))
        if code != 0:
            raise Failed(f"{Path(program).name} ended with {code}: {last_words(text)}")

    # ---- what was found ----

    def hide(self, text):
        """Without this machine's paths: reports are committed."""
        for place, name in ((self.work, "WORK"), (self.bundle, "BUNDLE"), (self.build, "BUILD"), (self.bin.parent, "BUILD"), (self.root, ".")):
            text = text.replace(str(place), name) if place else text
        return text

    def figure(self, label, value, floor=None, holds=None):
        self.figures.append((label, self.hide(value), floor, holds))

    def floor(self, label, value, floor, holds):
        """A stand-in's speed says nothing: its floors do not apply."""
        self.figure(label, value, floor, holds if self.gpu else None)

    # ---- the daemon ----

    def start_daemon(self):
        with open("/proc/meminfo", encoding="ascii") as meminfo:
            free = int(re.search(r"MemAvailable:\s+(\d+)", meminfo.read()).group(1)) << 10
        # A virtual machine may be given its memory only when it is used: gpu_rates' slots must fit all the same.
        self.daemon_memory = min(12 << 30, max(4 << 30, free // 4)) if self.gpu else 256 << 20
        log = open(self.work / "penstockd.log", "ab")
        command = [str(self.program("penstockd")), "--socket", self.environment["PENSTOCK_SOCKET"], "--memory", str(self.daemon_memory >> 20) + "M"]
        self.daemon_process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment,
                                               start_new_session=True)
        log.close()
        while not self.daemon_listens():
            if self.daemon_process.poll() is not None or time.monotonic() > self.end:
                raise Failed(f"penstockd does not start: {last_words(self.daemon_log())}")
            time.sleep(0.02)

    def daemon_listens(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            return probe.connect_ex(self.environment["PENSTOCK_SOCKET"]) == 0

    def revive_daemon(self):
        """None; or how the daemon ended, after which there is another: what comes later is not to suffer for it."""
        if not self.daemon_process or self.daemon_process.poll() is None:
            return None
        code, words = self.daemon_process.returncode, last_words(self.daemon_log())
        self.daemon_process, self.end = None, time.monotonic() + START_S
        try:
            self.start_daemon()
        except Failed as error:
            words += f"; {error}"
        return f"penstockd ended with {code} ({words})"

    def daemon_log(self):
        path = self.work / "penstockd.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self):
        if self.daemon_process and self.daemon_process.poll() is None:
            end_group(self.daemon_process)


# ---- the machine ----

def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None


# Asks the driver itself, in a process of its own: attributes 75 and 76 are the compute capability's two numbers (cuda.h). The fake driver of
# tests/cuda has a name that tells.
ASK_DRIVER = """
import ctypes
cuda, count, device, values = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int(), [ctypes.c_int(), ctypes.c_int()]
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert all(cuda.cuDeviceGetAttribute(ctypes.byref(value), 75 + i, device) == 0 for i, value in enumerate(values))
name = ctypes.create_string_buffer(256)
assert cuda.cuDeviceGetName(name, 256, device) == 0
print("".join(str(value.value) for value in values), name.value.decode())
"""


def find_gpu():
    """The first GPU's compute capability, "90" for 9.0, and its name; None where there is none."""
    line = first_line(sys.executable, "-c", ASK_DRIVER)
    return line.split(" ", 1) if line else None


# Not every driver knows every one of these; one that is not known spoils its whole question.
QUERIES = (("driver_version", "memory.total"), ("pcie.link.gen.max", "pcie.link.width.max"), ("clocks.max.memory", "clocks.max.sm"))


def gpu_facts():
    """What nvidia-smi says of the first GPU."""
    program = shutil.which("nvidia-smi") or "/usr/local/nvidia/bin/nvidia-smi"
    facts = {}
    for query in QUERIES:
        line = first_line(program, "-i", "0", f"--query-gpu={','.join(query)}", "--format=csv,noheader")
        values = [value.strip() for value in line.split(",")] if line else []
        facts.update(zip(query, values) if len(values) == len(query) else ())
    return facts


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as cpuinfo:
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read())
    return found.group(1) if found else platform.machine()


ASK_TORCH = """
import torch
found = [torch.__version__, f"CUDA {torch.version.cuda}", f"cuDNN {torch.backends.cudnn.version()}"]
try:
    import torchvision
    found.append(f"torchvision {torchvision.__version__}")
except Exception as error:
    found.append(f"no torchvision ({type(error).__name__})")
print(", ".join(found))
"""


def ask_torch(python, log):
    """Begins to ask: importing takes a while where nobody has read these files yet, and other things can be done meanwhile. The log gets to know
    why it cannot be imported."""
    return subprocess.Popen([python, "-c", ASK_TORCH], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                            text=True, start_new_session=True)


def torch_facts(asked):
    """What PyTorch says of itself, or None where this Python has none."""
    try:
        text, _ = asked.communicate(timeout=TORCH_S)
    except subprocess.TimeoutExpired:
        text = ""
    finally:
        end_group(asked)
    return text.strip() if asked.returncode == 0 else None


def machine_facts(stage, torch):
    facts = {"CPU": f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores", "kernel": platform.release(),
             "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
             "C library": " ".join(platform.libc_ver()), "Python": platform.python_version()}
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    for name, command in {"cc": ("cc", "--version"), "CMake": ("cmake", "--version")}.items():
        facts[name] = first_line(*command) or "not found"
    release = re.search(r"release [^,]+", subprocess_text(nvcc, "--version"))
    facts["nvcc"] = release.group(0) if release else "not found"
    facts["PyTorch"], facts["GPU"] = torch, stage.gpu_name
    facts.update({f"GPU: {name}": value for name, value in gpu_facts().items()})
    return {name: value or "not found" for name, value in facts.items()}


def subprocess_text(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
