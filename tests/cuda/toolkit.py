#!/usr/bin/env python3
"""cmake/PenstockCuda.cmake with made-up nvccs, nvidia-smis and drivers, which say that they are made up.

    toolkit.py CMAKE"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import ROOT, run_tests

CMAKE = sys.argv.pop(1)
LISTS = {"11.8": (35, 50, 60, 70, 75, 80, 86, 89, 90), "12.9": (50, 60, 70, 75, 80, 86, 87, 89, 90, 100, 101, 120, 121),
         "12.8": (50, 60, 70, 75, 80, 86, 87, 89, 90, 100, 101, 120), "13.0": (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)}


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n# Made up, for a test.\n{text}\n")
    path.chmod(0o755)


def make_toolkit(root, version):
    listed = "\\n".join(f"sm_{architecture}" for architecture in LISTS[version])
    write_program(root / "bin/nvcc", f'case $1 in --version) echo "made up, release {version}, V{version}.1";; *) printf "{listed}\\n";; esac')
    (root / "include").mkdir()
    (root / "include/cudaTypedefs.h").touch()
    return root


class Place:
    """A machine with these toolkits: in the folder of toolkits as cuda-VERSION, and in the PATH."""

    def __init__(self, home, places=(), path=None, driver=None, smi=None):
        self.home = Path(home)
        (self.home / "places").mkdir()
        for version in places:
            make_toolkit(self.home / f"places/cuda-{version}", version)
        self.path = os.environ["PATH"]
        if path:
            self.path = f"{make_toolkit(self.home / 'usual', path)}/bin:{self.path}"
        # In front of the machine's own, which would tell of a driver that this test has not made up.
        write_program(self.home / "smi/nvidia-smi", f"echo '| NVIDIA-SMI made up   CUDA Version: {smi}     |'" if smi else "exit 9")
        self.path = f"{self.home}/smi:{self.path}"
        if driver:
            (self.home / "version").write_text(f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build  (made up)\n")

    def configure(self, *options, code=0, **environment):
        source = self.home / "source"
        source.mkdir(exist_ok=True)
        (source / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES NONE)\nset(PENSTOCK_CUDA ON)\n"
                                               f"include({ROOT}/cmake/PenstockCuda.cmake)\nmessage(STATUS \"gencode: ${{PENSTOCK_CUDA_GENCODE}}.\")\n")
        with tempfile.TemporaryDirectory(dir=self.home) as build:
            done = subprocess.run([CMAKE, "-S", source, "-B", build, f"-DPENSTOCK_CUDA_PLACES={self.home}/places",
                                   f"-DPENSTOCK_DRIVER_VERSION_FILE={self.home}/version", *options], capture_output=True, text=True,
                                  env={"PATH": self.path, **environment})
        text = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == code, text
        return text


def machine(**what):
    class Within:
        def __enter__(self):
            self.folder = tempfile.TemporaryDirectory()
            return Place(self.folder.name, **what)

        def __exit__(self, *_):
            self.folder.cleanup()
    return Within()


def made_for(text):
    """Machine code and PTX, as numbers."""
    found = re.search(r"gencode: (.*?)\.", text).group(1)
    return [[int(number) for number in re.findall(rf"code={kind}_(\d+)", found)] for kind in ("sm", "compute")]


def test_the_toolkit_for_most_drivers_comes_first():
    with machine(places=("12.8", "12.9", "13.0"), path="13.0") as place:
        assert "cuda-12.9/bin/nvcc 12.9 for" in place.configure()
        assert "usual/bin/nvcc 13.0 for" in place.configure(CUDA_HOME=str(place.home / "usual")), "one that is named is taken"
        assert "cuda-12.8/bin/nvcc 12.8 for" in place.configure(CUDA_PATH=str(place.home / "places/cuda-12.8"))
        named = place.home / "places/cuda-13.0/bin/nvcc"
        assert "cuda-13.0/bin/nvcc 13.0 for" in place.configure(f"-DPENSTOCK_NVCC_PATH={named}")
    with machine(places=("12.8",), path="13.0") as place:
        assert "cuda-12.8/bin/nvcc 12.8 for" in place.configure()
    with machine(places=("13.0",), path="11.8") as place:
        assert "usual/bin/nvcc 11.8 for" in place.configure()


def test_every_device_gets_code():
    with machine(places=("12.9",)) as place:
        code, ptx = made_for(place.configure())
        assert code == [70, 75, 80, 86, 89, 90, 100, 120] and ptx == [70, 120], (code, ptx)
        # 11.0 is between: neither machine code for 10.0 nor PTX of 12.0 runs there.
        assert made_for(place.configure("-DPENSTOCK_CUDA_ARCHITECTURES=90")) == [[90], [90]]
        assert made_for(place.configure("-DPENSTOCK_CUDA_ARCHITECTURES=130")) == [[], [121]], "newer than nvcc: its newest PTX"
        assert made_for(place.configure("-DPENSTOCK_CUDA_ARCHITECTURES=110;90")) == [[90], [90, 101]]
        assert "90 130 (PTX of 121)" in place.configure("-DPENSTOCK_CUDA_ARCHITECTURES=90;130")
    with machine(path="13.0") as place:
        code, ptx = made_for(place.configure())
        assert code == [75, 80, 86, 89, 90, 100, 120] and ptx == [75, 120], (code, ptx)
    with machine(path="11.8") as place:
        assert made_for(place.configure()) == [[70, 75, 80, 86, 89, 90], [70, 90]]


def test_capabilities_that_are_none():
    with machine(path="13.0") as place:
        assert "knows none of them: expected some of 75 80" in place.configure("-DPENSTOCK_CUDA_ARCHITECTURES=60", code=1)
        assert 'has "9.0": expected compute capabilities as numbers' in place.configure("-DPENSTOCK_CUDA_ARCHITECTURES=9.0", code=1)


def test_a_toolkit_newer_than_the_driver():
    words = "makes code for drivers of CUDA 13 (580 or later), and this machine has a driver"
    for what in ({"driver": "550.54.15"}, {"driver": "570.86"}, {"smi": "12.8"}, {"driver": "550.54", "smi": "12.4"}):
        with machine(path="13.0", **what) as place:
            assert words in place.configure(), what
    with machine(path="13.0", driver="550.54.15") as place:
        assert "has a driver 550.54.15: libpenstock_cuda will not load here" in place.configure()
    for what in ({"driver": "580.65.06"}, {"driver": "610.1"}, {"smi": "13.1"}, {}, {"driver": "550.54.15", "smi": "13.0"}):
        with machine(path="13.0", **what) as place:
            assert "makes code for drivers" not in place.configure(), what
    with machine(places=("12.9",), driver="550.54.15") as place:
        assert "makes code for drivers" not in place.configure()
    with machine(path="12.9", driver="470.42.01") as place:
        assert "drivers of CUDA 12 (525 or later)" in place.configure()


if __name__ == "__main__":
    run_tests(globals())
