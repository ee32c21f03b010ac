#!/usr/bin/env python3
"""tests/gpu/run and tests/gpu/bundle, where there is no GPU: what they do with what goes wrong, and a run against the fake driver.

    test_run.py        PENSTOCK_BIN: the build's programs"""
import json
import os
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import parts
import report
import stage
from harness import BIN, ROOT, Daemon, Skip, folder, make_dataset, run_tests


def run(*words, code=0, program="run", **environment):
    """What it printed, to both."""
    # No driver is found by chance: neither the machine's nor, by LD_LIBRARY_PATH, a test's.
    done = subprocess.run([str(HERE / program), *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=240, env={**os.environ, "LD_LIBRARY_PATH": "", **environment})
    assert done.returncode == code, f"ended with {done.returncode}, not {code}:\n{done.stdout[-4000:]}"
    return done.stdout


def stage_of(home, end, bundle=None):
    """A Stage whose part has until `end`."""
    args = types.SimpleNamespace(without_gpu=True, bundle=bundle, build=home / "build", bin=BIN)
    made = stage.Stage(args, home)
    made.log, made.end = open(home / "log", "a", encoding="utf-8"), end
    return made


def raises(kind, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(f"{function.__name__} raised no {kind.__name__}")


def read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def ends(pid):
    """Whether a process that was killed is gone soon. It may be a zombie of an init that does not look; it does not run."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


# ---- run ----

def test_says_that_it_needs_a_gpu():
    if stage.find_gpu():
        raise Skip("there is a GPU here")
    text = run(code=77)
    assert "needs a GPU" in text and all(part.name in text for part in parts.PARTS), text


def test_refuses():
    with folder() as home:
        assert "expected build, data" in run("--only", "nonsense", code=2)
        assert "tests/gpu/bundle has made" in run("--bundle", home, code=2)
        assert "expected a program" in run("--python", "/nowhere/python3", code=2)
        assert "more than 0" in run("--minutes", "0", code=2)
        assert "another ending" in run("--output", home / "report.log", code=2)
        assert "more than 0" in run("--minutes", "nan", code=2)


def test_a_part_that_fails_costs_no_other():
    with folder() as home:
        text = run("--without-gpu", "--bin", home / "nothing", "--output", home / "r.md", "--only", "train_cpu", code=1)
        assert "make_dataset was not built" in text and "train_cpu was not built" in text, text
        written = (home / "r.md").read_text()
        assert "**FAILED**" in written and "no GPU was used" in written, written
        assert str(home) not in written, "the report names a path of this machine"


def test_ended_it_ends_what_it_started():
    with folder() as home:
        words = [str(HERE / "run"), "--without-gpu", "--bin", BIN, "--output", home / "r.md", "--python", "none", "--only", "train_cpu"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(home)}) as command:
            for line in command.stdout:
                if line.startswith("daemon "):
                    break
            time.sleep(0.5)
            command.terminate()
            assert command.wait(30) == 1
        left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(home).encode() in read(path) and ends(path.parent.name) is False]
        assert not left, left
        assert not list(home.glob("penstock-gpu-*")), "a temporary folder was left"


def test_no_time_left_is_no_success():
    with folder() as home:
        text = run("--without-gpu", "--bin", BIN, "--output", home / "r.md", "--only", "train_cpu", "--minutes", "0.01", code=1)
        assert "not run" in text and "no time was left" in (home / "r.md").read_text(), text


def test_overrunning_is_ended_with_all_that_it_started():
    with folder() as home:
        made = stage_of(home, time.monotonic() + 0.5)
        child = home / "pid"
        said = raises(stage.Overran, made.run, "sh", "-c", f"echo working; sleep 600 & echo $! >{child}; wait")
        assert "last word: working" in said, said
        assert ends(int(child.read_text())), "a child was left"


def test_what_a_command_leaves_behind():
    """It is ended, and what has gone into a session of its own, with the command's output still open, holds nothing up."""
    with folder() as home:
        begin = time.monotonic()
        child = home / "pid"
        assert stage_of(home, begin + 60).run("sh", "-c", f"sleep 600 & echo $! >{child}; echo done") == "done\n"
        assert ends(int(child.read_text())), "a child was left"
        assert stage_of(home, begin + 60).run("sh", "-c", "setsid sleep 20 & sleep 0.3; echo done") == "done\n"
        assert "last word: begun" in raises(stage.Overran, stage_of(home, time.monotonic() + 0.5).run, "sh", "-c",
                                            "setsid sleep 20 & echo begun; sleep 600")
        assert time.monotonic() - begin < 15, "it was waited for"


def test_what_does_not_compile_costs_no_other_program():
    for generator in ("Ninja", "Unix Makefiles"):
        with folder() as home:
            what_does_not_compile(home, generator)


def what_does_not_compile(home, generator):
    made = stage_of(home, time.monotonic() + 60)
    made.lacks, made.generator = lambda: ([], []), lambda: generator
    made.root, made.given_bin, made.has_library = home / "source", None, lambda _: False
    made.root.mkdir()
    (made.root / "bad.c").write_text("#error it does not\n")
    (made.root / "good.c").write_text("int main(void) { return 0; }\n")
    names = [name for name in parts.TARGETS + ("cuda_fake_driver",) if name != "train_cuda"]
    # One at a time, the one that fails first.
    (made.root / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES C)\n"
                                              "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\nadd_executable(train_cuda bad.c)\n" +
                                              "".join(f"add_custom_target({name})\n" for name in names) +
                                              "add_executable(late good.c)\nadd_dependencies(penstock late)\n")
    made.cores = 1
    assert f"cmake ended with {1 if generator == 'Ninja' else 2}" in raises(stage.Failed, parts.build, made)
    assert (made.build / "bin/late").exists(), "it was not built"


def test_headers_of_two_releases():
    """Those of cuBLAS out of a package beside an older toolkit, as it is usual, and such as do not go together."""
    for toolkit, package, expected in (("older", "newer", "package;toolkit"), ("newer", "older", "toolkit;package"), ("older", "older", "")):
        with folder() as home:
            for place, name in (("toolkit", toolkit), ("package", package)):
                (home / place).mkdir()
                (home / place / "library_types.h").write_text(f"typedef int {name};\n")
            (home / "package/cublas_v2.h").write_text("#include <library_types.h>\nnewer cublas(void);\n")
            (home / "CMakeLists.txt").write_text(
                f"cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES C)\ninclude({ROOT}/cmake/PenstockHeaders.cmake)\n"
                "set(here ${CMAKE_SOURCE_DIR})\n"
                'penstock_headers(found "#include <cublas_v2.h>\nnewer cublas(void) { return 0; }\n" ${here}/toolkit ${here}/package)\n'
                'string(REPLACE ${here}/ "" found "${found}")\nmessage(STATUS "found: ${found}.")\n')
            text = stage_of(home, time.monotonic() + 60).run("cmake", "-G", "Ninja", "-S", home, "-B", home / "b")
            assert f"-- found: {expected}.\n" in text, (toolkit, package, text)


def test_libraries_that_were_linked_come_first():
    with folder() as home:
        made = stage_of(home, time.monotonic() + 60)
        made.bin = home / "bin"
        made.bin.mkdir()
        (made.bin / "train_cuda").touch()
        made.environment["LD_LIBRARY_PATH"] = "/given"
        assert made.with_toolkit("train_cuda")[1].startswith("LD_LIBRARY_PATH=/given:"), "without a cache"
        (home / "CMakeCache.txt").write_text("PENSTOCK_CUBLAS_LIBRARY:FILEPATH=/a/lib/libcublas.so.13\nPENSTOCK_CUDART_LIBRARY:FILEPATH=/b/libcudart.so\n"
                                             "PENSTOCK_CUDNN_LIBRARY:FILEPATH=/c/lib/libcudnn.so.9\n")
        assert made.with_toolkit("train_cuda")[1].startswith("LD_LIBRARY_PATH=/a/lib:/c/lib:/given:"), made.with_toolkit("train_cuda")
        (home / "CMakeCache.txt").write_text("PENSTOCK_CUDNN_LIBRARY:FILEPATH=PENSTOCK_CUDNN_LIBRARY-NOTFOUND\n")
        assert made.linked() == []


def test_a_daemon_that_ends_is_replaced():
    with folder() as home:
        made = stage_of(home, time.monotonic() + 60)
        assert made.revive_daemon() is None, "there was none"
        made.start_daemon()
        assert made.revive_daemon() is None, "it lives"
        first = made.daemon_process
        first.kill()
        first.wait()
        try:
            assert made.revive_daemon().startswith("penstockd ended with -9 ("), "it was not missed"
            assert made.daemon_process.pid != first.pid and made.daemon_listens()
        finally:
            made.close()
        made.program = lambda name: Path(shutil.which("false"))
        assert "penstockd does not start" in made.revive_daemon()


def test_outcomes_of_a_command():
    with folder() as home:
        made = stage_of(home, time.monotonic() + 60)
        assert made.run("sh", "-c", "echo out; echo err >&2") == "out\n"
        assert "ended with 3: what went wrong" in raises(stage.Failed, made.run, "sh", "-c", "echo out; echo what went wrong >&2; exit 3")
        assert raises(stage.Failed, made.run, "env", "A=1", "sh", "-c", "exit 4") == "sh ended with 4: no word"
        assert raises(stage.Skipped, made.run, "sh", "-c", "echo no such thing here >&2; exit 77") == "no such thing here"
        log = (home / "log").read_text()
        assert "out" in log and "err" in log and "what went wrong" in log, log


def test_asks_python_for_pytorch():
    with folder() as home:
        program = home / "python"
        usual, stage.TORCH_S = stage.TORCH_S, 0.3
        try:
            log = open(home / "log", "w", encoding="utf-8")
            for does, expected in (("echo there is none >&2; exit 1", None), ("echo 2.11", "2.11"), ("sleep 600", None)):
                program.write_text(f"#!/bin/sh\n{does}\n")
                program.chmod(0o755)
                asked = stage.ask_torch(program, log)
                assert stage.torch_facts(asked) == expected, does
                assert ends(asked.pid), does
            assert (home / "log").read_text() == "there is none\n"
        finally:
            stage.TORCH_S = usual


def test_the_loss_must_fall():
    lines = "step {0}  epoch 0  loss {1:5.3f}  accuracy 10.0 %\n"
    falling = "".join(lines.format(i, 3 - i / 10) for i in range(20))
    assert parts.must_fall(falling).startswith("loss 2.950 to 1.150"), parts.must_fall(falling)
    assert "did not fall" in raises(stage.Failed, parts.must_fall, "".join(lines.format(i, 1 + i) for i in range(20)))
    assert "did not fall" in raises(stage.Failed, parts.must_fall, lines.format(1, 2) * 2)
    assert "too few" in raises(stage.Failed, parts.must_fall, lines.format(1, 2))
    assert "too few" in raises(stage.Failed, parts.must_fall, "loss nan\n")
    broken = falling + "step 20  epoch 0  loss   nan  accuracy 10.0 %\n" + falling
    assert "no number from line 21 of 41 on" in raises(stage.Failed, parts.must_fall, broken)
    assert parts.must_fall(falling + "validation after step 20  loss 9.5000  accuracy 10.0 %  of 90\n") == parts.must_fall(falling)


def trainer_text(last, weights, begin="going on after step 100 with batch 25 of epoch 1"):
    lines = "".join(f"step    {i}  epoch   1  loss {last:.4f}  accuracy  84.8 %  rate 0.00307    2100 images/s  waited  0.3 % (daemon  0.1 %, device  2.0 %, "
                    "copies  0.0 %)\n" for i in range(101, 105))
    return f"{begin}\n{lines}done after step 200, weights {weights}, loss scale 65536, 0 steps skipped for overflow\n"


def test_resuming_is_compared():
    begin = "beginning at step 0 with batch 0 of epoch 0"
    with folder() as home:
        made = stage_of(home, time.monotonic() + 60)
        made.gpu, made.with_toolkit = True, lambda name: [name]

        def outcome(*texts):
            answers = iter(texts)
            made.run = lambda *_: next(answers)
            return parts.train_cuda_resumes(made)

        stopped, whole = trainer_text(0.9, "aa", begin), trainer_text(0.5, "bb", begin)
        assert outcome(stopped, trainer_text(0.5, "bb"), whole).endswith("the same weights")
        assert "the weights differ" in outcome(stopped, trainer_text(0.51, "cc"), whole)
        assert "ends at 0.900" in raises(stage.Failed, outcome, stopped, trainer_text(0.9, "cc"), whole)
        assert "ends at nan" in raises(stage.Failed, outcome, stopped, trainer_text(float("nan"), "cc"), whole)
        assert "does not say" in raises(stage.Failed, outcome, stopped, trainer_text(0.5, "bb", begin), whole)
        made.run = lambda *_: trainer_text(0.5, "bb", begin).replace("0.5000", "1.5000", 1)
        assert parts.train_cuda_falls(made).startswith("loss 1.500 to 0.500")
        assert made.figures == [("train_cuda, its last line", "2100 images/s, waited 0.3 %", None, None)], made.figures


def torch_text(waiting, failed=None):
    line = {"loader": "penstock", "images_s": 990.0, "waiting_share": waiting, "iterator_share": 0.5, "stalled_share": 0, "torchvision": "0.29",
            "dtype": "torch.bfloat16", "verdict": "bound by the device"}
    lines = [{**line, "loader": "synthetic", "images_s": 1000.0}, line, failed or {"loader": "dataloader", "skipped": "needs torchvision"}]
    return "some warning\n" + "".join(json.dumps(one) + "\n" for one in lines)


def test_waiting_counts_where_the_daemon_is_faster():
    with folder() as home:
        for rate, waiting, holds in ((2000, 0.001, True), (2000, 0.02, False), (500, 0.02, None)):
            made = stage_of(home, time.monotonic() + 60)
            made.gpu, made.daemon_rate = True, rate
            words = parts.torch_run(made, "resnet50", ("echo", torch_text(waiting)))
            found = {label: value for label, *value in made.figures}
            assert found["resnet50: waiting for penstock"][2] is holds, found
            assert words.startswith("penstock feeds 0.990") and made.model_rate == 1000, words
            assert report.write(home / "r.md", made, {}, [], 1, 1) is (holds is not False)


def test_what_was_measured_counts_whatever_came_after():
    with folder() as home:
        failed = torch_text(0, {"loader": "dataloader", "failed": "ValueError: no"})
        for kind, after, said in ((stage.Failed, "exit 1", "ValueError: no; penstock feeds 0.990"),
                                  (stage.Overran, "sleep 600", "sh was ended: last word: ")):
            made = stage_of(home, time.monotonic() + 1)
            words = raises(kind, parts.torch_run, made, "resnet50", ("sh", "-c", f"echo '{failed}'; {after}"))
            assert words.startswith(said) and "penstock feeds 0.990" in words and made.model_rate == 1000, words
            assert len(made.figures) == 5, made.figures
        lacking = json.dumps({"loader": "synthetic", "model": "resnet50", "skipped": "needs torchvision"})
        assert raises(stage.Skipped, parts.torch_run, stage_of(home, time.monotonic() + 9), "resnet50", ("echo", lacking)) == "needs torchvision"
        assert "exit code" in raises(stage.Failed, parts.torch_run, stage_of(home, time.monotonic() + 1), "resnet50", ("false",))


def test_the_sanitizer_says_what_it_looked_at():
    with folder() as home:
        program, made = home / "compute-sanitizer", stage_of(home, time.monotonic() + 60)
        made.photographs, made.program, made.gpu = home, lambda name: Path(shutil.which("true")), True
        program.write_text('#!/bin/sh\nshift 6\nexec "$@"\n')
        program.chmod(0o755)
        assert "memcheck over kernels" in parts.sanitize(made, program)
        program.write_text('#!/bin/sh\necho "ERROR SUMMARY: 1 error"\n[ "$2" != racecheck ] || exit 9\n')
        words = raises(stage.Failed, parts.sanitize, made, program)
        assert words.startswith("racecheck over transform: compute-sanitizer ended with 9: ERROR SUMMARY"), words
        assert "nothing found: memcheck over kernels" in words and words.endswith("synccheck over transform"), "one finding costs no other tool"
        program.write_text('#!/bin/sh\necho "========= Error: Device not supported. Please refer to the documentation."; exit 255\n')
        assert "refuses this device: ========= Error: Device not supported" in raises(stage.Skipped, parts.sanitize, made, program)
        made.end = time.monotonic() + 1
        program.write_text('#!/bin/sh\n[ "$2" != racecheck ] || exec sleep 600\n')
        words = raises(stage.Overran, parts.sanitize, made, program)
        assert words.startswith("racecheck over transform: ") and words.endswith("memcheck over ring"), words


def test_floors():
    with folder() as home:
        made = stage_of(home, time.monotonic() + 60)
        made.gpu = True
        text = json.dumps({"bandwidth_gb_s": 3000, "peak_gb_s": None, "kernels": {"fast": 0.9, "slow": 0.79}, "augmented": {"mixed": 0.5}})
        parts.kernel_figures(made, "a table\n" + text + "\n")
        assert [figure[3] for figure in made.figures] == [True, False, None], made.figures
        assert not report.write(home / "r.md", made, {}, [], 1, 1)
        assert "floors that do not hold: 1" in (home / "r.md").read_text()
        made.figures = [figure for figure in made.figures if figure[3] is not False] + [("copies", "not allowed here", ">= 0.95", None)]
        assert report.write(home / "r.md", made, {}, [], 1, 1)
        assert "every floor holds (1 of 2 applied)" in (home / "r.md").read_text()
        made.figures = []
        assert report.write(home / "r.md", made, {}, [], 1, 1) and "no floor applied" in (home / "r.md").read_text()


def fake_driver():
    if not (BIN.parent / "tests/cuda/driver/libcuda.so.1").exists() or not (BIN / "gpu_attach").exists():
        raise Skip("the fake driver was not built (no nvcc?)")
    return str(BIN.parent / "tests/cuda/driver")


def torch_python():
    """A Python that has torch, for the stand-in of torch's CUDA device; None."""
    program = os.environ.get("PENSTOCK_TORCH_PYTHON") or sys.executable
    found = subprocess.run([program, "-c", "import torch, torchvision, numpy"], capture_output=True).returncode == 0
    return program if found else None


def with_stand_ins(home, wanted, python="none"):
    """The way of a run with a GPU, through these parts: the fake driver, the emulated GPU of train_cuda, the stand-in of torch's CUDA
    device, and a compute-sanitizer that runs what it is given. What was printed, the report, and the log."""
    fake_driver()
    sanitizer = home / "bin/compute-sanitizer"
    sanitizer.parent.mkdir()
    sanitizer.write_text('#!/bin/sh\nshift 6\nexec "$@"\n')
    sanitizer.chmod(0o755)
    text = run("--without-gpu", "--bin", BIN, "--output", home / "r.md", "--python", python, "--only", ",".join(wanted),
               PATH=f"{sanitizer.parent}:{os.environ['PATH']}")
    written = (home / "r.md").read_text()
    assert "everything that ran passed" in text and written.count("| passed |") == 3 + len(wanted), text
    assert "**no GPU was used.**" in written and "were stand-ins" in written, written
    return text, written, (home / "r.log").read_text()


def test_parts_with_the_fake_driver():
    with folder() as home:
        text, written, _ = with_stand_ins(home, "registered,ring,release,transform,together,killed,memory,kernels,rates,growth".split(","))
        assert "and no floor applied" in written and "on NUMA node" in text, text


def test_sanitizer_with_the_fake_driver():
    with folder() as home:
        assert "nothing found: memcheck over kernels, memcheck over transform" in with_stand_ins(home, ["sanitizer"])[0]


def test_trainers_with_the_emulated_gpu():
    with folder() as home:
        text = with_stand_ins(home, ("self-test", "train_cuda", "resume", "train_cpu", "daemon's rate"))[0]
        assert "of the emulated GPU with the host, 0 failed" in text and "the same weights" in text, text


def test_torch_with_its_stand_in():
    """ResNet-18 goes the way of ResNet-50."""
    python = torch_python()
    if not python:
        raise Skip("no Python has torch and torchvision (cmake -DPENSTOCK_TORCH_PYTHON=... names one)")
    with folder() as home:
        text, _, log = with_stand_ins(home, ("resnet18", "reader"), python)
        assert log.count("no GPU is used") == 2 and "by torch and by libpenstock_cuda, as on the CPU" in text, log[-3000:]
        assert "resnet18, dataloader" in text and "resnet18, synthetic (again)" in text, text


def test_what_is_asked_of_a_gpu():
    """Its driver, nvidia-smi (one that does not know every question), and CMake for its architecture; with a made-up nvidia-smi."""
    asked = subprocess.run([sys.executable, "-c", stage.ASK_DRIVER], capture_output=True, text=True,
                           env={**os.environ, "LD_LIBRARY_PATH": fake_driver()})
    assert asked.stdout == "90 Fake device 0\n", asked
    with folder() as home:
        program, path = home / "nvidia-smi", os.environ["PATH"]
        program.write_text('#!/bin/sh\ncase "$*" in *driver_version*) echo "580.1, 80 GiB";; *pcie*) exit 2;; *) echo "1, 2";; esac\n')
        program.chmod(0o755)
        os.environ["PATH"] = f"{home}:{path}"
        try:
            facts = stage.gpu_facts()
        finally:
            os.environ["PATH"] = path
        assert facts == {"driver_version": "580.1", "memory.total": "80 GiB", "clocks.max.memory": "1", "clocks.max.sm": "2"}, facts
        made = stage_of(home, time.monotonic() + 60)
        made.capability, made.python, made.gpu = "90", "/some/python", True
        options = parts.build_options(made)
        assert "-DPENSTOCK_CUDA_ARCHITECTURES=90" in options and "-DPython3_EXECUTABLE=/some/python" in options, options


def test_another_process_on_the_device():
    """It takes memory once while this one counts; or all the time."""
    driver = fake_driver()
    with folder() as home, Daemon(home, "--memory", "128M") as daemon:
        pictures = make_dataset(home / "d", per_class=30)
        for test, neighbor, code, words in (("memory", "once", 0, "5 batches"), ("memory", "restless", 77, "other processes use the device"),
                                            ("growth", "once", 0, "200 batches"), ("growth", "restless", 77, "other processes use the device")):
            done = subprocess.run([BIN / "gpu_attach", pictures, test] + (["200"] if test == "growth" else []), capture_output=True, text=True,
                                  timeout=100, env={**os.environ, "LD_LIBRARY_PATH": driver, "PENSTOCK_SOCKET": daemon.socket,
                                                    "FAKE_CUDA_NEIGHBOR": neighbor})
            if code == 77:  # it ends at once, with what the driver still has
                assert done.returncode in (77, 86) and words in done.stdout + done.stderr, (test, neighbor, done)
            else:
                assert done.returncode == 0 and words in done.stdout, (test, neighbor, done)


# ---- what a stock machine lacks ----

def machine_with(home, *, without=(), cmake="3.25.1", modules=True):
    """A Stage whose PATH has made-up programs only, but for the shell."""
    made, programs = stage_of(home, time.monotonic() + 60), home / "programs"
    programs.mkdir()
    for name in ("cmake", "ninja", "make", "cc", "c++", "pkg-config", "nvcc"):
        if name not in without:
            text = {"cmake": f"echo cmake version {cmake}", "pkg-config": "exit 0" if modules else 'case $2 in zlib|jansson) exit 0;; esac; exit 1'}
            (programs / name).write_text(f"#!/bin/sh\n{text.get(name, 'exit 0')}\n")
            (programs / name).chmod(0o755)
    made.environment["PATH"], made.given_bin, made.gpu = str(programs), None, True
    return made


def test_all_that_a_machine_lacks_is_one_sentence():
    for what, expected in (({}, None), ({"without": ("ninja",)}, None), ({"without": ("make",)}, None),
                           ({"without": ("ninja", "make")}, "lacks ninja or make (apt-get install make);"),
                           ({"cmake": "3.22.1"}, "lacks CMake 3.25 (this is 3.22.1: python3 -m pip install cmake);"),
                           ({"without": ("nvcc", "c++", "pkg-config"), "cmake": "3.22.1"},
                            "lacks c++ or g++ or clang++, pkg-config, nvcc, CMake 3.25 (this is 3.22.1: python3 -m pip install cmake) (apt-get install "
                            "g++ pkg-config);"),
                           ({"modules": False}, "lacks the headers of libjpeg, the headers of libpng, the headers of libxxhash, the headers of liburing, "
                            "the headers of yaml-0.1, the headers of freetype2 (apt-get install libjpeg-dev libpng-dev libxxhash-dev liburing-dev "
                            "libyaml-dev libfreetype-dev fonts-dejavu-core);")):
        with folder() as home:
            made = machine_with(home, **what)
            if expected:
                assert f"this machine {expected}" in raises(stage.Failed, parts.build, made), what
            else:
                assert made.lacks() == ([], []), what
                assert made.generator() == ("Unix Makefiles" if what == {"without": ("ninja",)} else "Ninja")


# ---- bundle ----

def test_bundle_refuses():
    with folder() as home:
        (home / "full").mkdir()
        (home / "full/file").touch()
        assert "is not empty" in run(home / "full", program="bundle", code=1)
        assert "does not ignore it" in run(ROOT / "bundle-of-a-test", program="bundle", code=1)
        assert "is no folder" in run(home / "new", home / "nothing", program="bundle", code=1)


def test_bundle():
    if not shutil.which("dpkg-query"):
        raise Skip("there is no dpkg here")
    with folder() as home:
        pictures = make_dataset(home / "d", per_class=4)
        flat = home / "flat"
        flat.mkdir()
        for path in pictures.rglob("*.jpg"):
            path.rename(flat / path.name)
        text = run(home / "bundle", flat, "--images", "9", program="bundle")
        made = home / "bundle"
        about = json.loads((made / "about.json").read_text())
        assert about["images"] == 9 and about["classes"] == 3, text
        assert sorted(path.name for path in (made / "images").iterdir()) == ["beach", "bricks", "forest"]
        # What it has is found, and nothing else: with its own pkg-config, away from where it was made.
        moved = made.rename(home / "moved")
        environment = {"PATH": os.environ["PATH"], "PKG_CONFIG_LIBDIR": str(moved / "lib/pkgconfig"), "LD_LIBRARY_PATH": str(moved / "bin")}
        modules = [path.stem for path in (moved / "lib/pkgconfig").iterdir()]
        assert len(modules) == 8, modules
        for module in modules:
            flags = subprocess.run([moved / "bin/pkg-config", "--cflags", "--libs", module], env=environment, capture_output=True, text=True,
                                   check=True).stdout.split()
            for flag in flags:
                place = os.path.realpath(flag[2:])
                assert flag.startswith("-l") or (place.startswith(str(moved)) and os.path.isdir(place)), f"{module}: {flags}"
        configures(home, moved)


def configures(home, bundle):
    """CMake finds in the bundle all that it asks pkg-config for, and makes the targets that are wanted."""
    made = stage_of(home, time.monotonic() + 120, bundle)
    made.run("cmake", "-S", ROOT, "-B", made.build, *parts.build_options(made), "-DPENSTOCK_PYTHON=OFF")
    cache = (made.build / "CMakeCache.txt").read_text()
    assert "PENSTOCK_SECCOMP:BOOL=ON" in cache and "BUILD_TESTING:BOOL=OFF" in cache, cache
    known = made.run("cmake", "--build", made.build, "--target", "help")
    wanted = ["penstockd", "penstock", "make_dataset", "train_cpu"] + (["gpu_attach", "gpu_rates", "gpu_kernels"] if "CUDA: libpenstock_cuda is "
                                                                       "built" in (home / "log").read_text() else [])
    assert all(f"\n{name}: " in known for name in wanted), known


if __name__ == "__main__":
    run_tests(globals())
