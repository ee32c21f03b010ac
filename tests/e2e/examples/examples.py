#!/usr/bin/env python3
"""The example programs: make_dataset says what it does wrong; train_cpu, in C and in C++, learns, and resumes to the bit."""
import os
import re
import signal
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, Daemon, Skip, folder, make_dataset, run_tests, tool, wait_until


def run(*command, code=0, daemon=None):
    environment = {**daemon.environment, "PENSTOCK_SOCKET": daemon.socket} if daemon else None
    result = subprocess.run([tool(command[0]), *map(str, command[1:])], capture_output=True, text=True, timeout=LIMIT,
                            env=environment, check=False)
    assert result.returncode == code, f"{command} ended with {result.returncode}: {result.stdout}{result.stderr}"
    return result.stdout + result.stderr


def weights(text):
    return re.search(r"after step (\d+), weights ([0-9a-f]{16})", text).groups()


def need_cpp():
    if not os.path.exists(tool("train_cpu_cpp")):
        raise Skip("train_cpu_cpp was not built: no C++ compiler")


def test_dataset_is_a_function_of_its_seed():
    with folder() as home:
        trees = {}
        for name, options in {"a": ("--threads", "1"), "b": ("--threads", "3"), "c": ("--seed", "1")}.items():
            run("make_dataset", home / name, "--per-class", "3", "--max-side", "260", *options)
            files = sorted(path for path in (home / name).rglob("*.jpg"))
            trees[name] = [(path.relative_to(home / name), sha256(path.read_bytes()).digest()) for path in files]
        assert len(trees["a"]) == 18 and trees["a"] == trees["b"], "threads change the pictures"
        assert not {digest for _, digest in trees["a"]} & {digest for _, digest in trees["c"]}, "the seed changes nothing"


def test_tars_hold_the_same_pictures():
    with folder() as home:
        run("make_dataset", home / "folder", "--per-class", "4", "--max-side", "260")
        run("make_dataset", home / "tars", "--per-class", "4", "--max-side", "260", "--tars", "--per-shard", "10")
        names = sorted(path.parent.name for path in (home / "folder").rglob("*.jpg"))
        classes = sorted(set(names))
        pictures = {sha256(path.read_bytes()).digest(): path.parent.name for path in (home / "folder").rglob("*.jpg")}
        seen = []
        for path in sorted((home / "tars").iterdir()):
            with tarfile.open(path) as tar:
                members = tar.getmembers()
                for picture, label in zip(members[::2], members[1::2], strict=True):
                    assert picture.name[:-4] == label.name[:-4], "members of one sample are not adjacent"
                    name = classes[int(tar.extractfile(label).read())]
                    assert pictures[sha256(tar.extractfile(picture).read()).digest()] == name, "the wrong label"
                    seen.append(name)
        assert sorted(seen) == names and seen != names, "not every picture once, shuffled"


def test_dataset_refuses():
    with folder() as home:
        run("make_dataset", home / "a", "--per-class", "1", "--max-side", "200")
        assert "File exists" in run("make_dataset", home / "a", "--per-class", "1", code=1)
        assert "cannot make the folder" in run("make_dataset", "/proc/nowhere/x", code=1)
        assert "expected a number" in run("make_dataset", home / "b", "--classes", "7", code=2)
        assert "usage" in run("make_dataset", code=2)


def test_training_resumes_to_the_bit():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=64, classes=3)
        common = ("train_cpu", pictures, "--seed", "5")
        whole = run(*common, "--steps", "10", daemon=daemon)
        assert weights(whole)[0] == "10"

        checkpoint = home / "checkpoint"
        run(*common, "--steps", "4", "--checkpoint", checkpoint, daemon=daemon)  # one step into the second epoch
        rest = run(*common, "--steps", "10", "--checkpoint", checkpoint, "--resume", daemon=daemon)
        assert "going on after step 4 with batch 1 of epoch 1" in rest, rest
        assert weights(rest) == weights(whole), "resuming changed the weights"
        other = run("train_cpu", pictures, "--seed", "6", "--steps", "10", daemon=daemon)
        assert weights(other) != weights(whole), "the weights do not depend on the data"


def test_interruption_keeps_the_place():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=64, classes=3)
        checkpoint = home / "checkpoint"
        command = [tool("train_cpu"), str(pictures), "--checkpoint", str(checkpoint)]
        environment = {**daemon.environment, "PENSTOCK_SOCKET": daemon.socket}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            while "epoch   1" not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            text = process.stdout.read()
        assert process.returncode == 0 and "interrupted" in text, text
        step = int(weights(text)[0])
        whole = run("train_cpu", pictures, "--steps", step + 3, daemon=daemon)
        rest = run("train_cpu", pictures, "--steps", step + 3, "--checkpoint", checkpoint, "--resume", daemon=daemon)
        assert weights(rest) == weights(whole), "resuming changed the weights"


def test_training_without_labels():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        (home / "flat").mkdir()
        for path in make_dataset(home / "d", per_class=30).rglob("*.jpg"):
            path.rename(home / "flat" / path.name)
        text = run("train_cpu", home / "flat", "--steps", "3", daemon=daemon)
        assert "no labels" in text and weights(text)[0] == "3", text


def test_training_refuses():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=30)
        (home / "rubbish").write_bytes(b"rubbish" * 1000)
        assert "not a checkpoint" in run("train_cpu", pictures, "--checkpoint", home / "rubbish", "--resume", code=1, daemon=daemon)
        assert "cannot read" in run("train_cpu", pictures, "--checkpoint", home / "gone", "--resume", code=1, daemon=daemon)
        assert "is not below 2" in run("train_cpu", pictures, "--classes", "2", code=1, daemon=daemon)
        assert "cannot open the stream" in run("train_cpu", home / "gone", code=1, daemon=daemon)
        assert "usage" in run("train_cpu", pictures, "--resume", code=2)
        # Another dataset's place is refused by the daemon, not taken for ours.
        run("train_cpu", pictures, "--steps", "1", "--checkpoint", home / "c", daemon=daemon)
        other = make_dataset(home / "e", per_class=31)
        assert "cannot open the stream" in run("train_cpu", other, "--checkpoint", home / "c", "--resume", code=1, daemon=daemon)


def test_cpp_learns_what_c_learns():
    need_cpp()
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=64, classes=3)
        c = run("train_cpu", pictures, "--seed", "5", "--epochs", "2", daemon=daemon)
        whole = run("train_cpu_cpp", pictures, "--seed", "5", "--epochs", "2", "--val", pictures, daemon=daemon)
        assert weights(whole) == weights(c), "the same net on the same data has other weights in C++"
        assert whole.count("of 192 images") == 4, f"not each image once in training and in evaluation, twice: {whole}"

        checkpoint = home / "checkpoint"
        common = ("train_cpu_cpp", pictures, "--seed", "5", "--epochs", "2", "--checkpoint", checkpoint)
        run(*common, "--steps", "4", daemon=daemon)
        rest = run(*common, "--resume", daemon=daemon)
        assert "step 4, batch 1 of epoch 1" in rest and weights(rest) == weights(whole), rest
        assert weights(run(*common, "--resume", daemon=daemon)) == weights(whole), "a run that was over went on"


def test_cpp_interruption_keeps_the_place():
    need_cpp()
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=64, classes=3)
        checkpoint = home / "checkpoint"
        command = [tool("train_cpu_cpp"), str(pictures), "--epochs", "0", "--checkpoint", str(checkpoint)]
        environment = {**daemon.environment, "PENSTOCK_SOCKET": daemon.socket}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            while "training" not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            text = process.stdout.read()
        assert process.returncode == 0 and "interrupted" in text, text
        step = int(weights(text)[0])
        whole = run("train_cpu_cpp", pictures, "--epochs", "0", "--steps", step + 3, daemon=daemon)
        rest = run("train_cpu_cpp", *command[1:], "--steps", step + 3, "--resume", daemon=daemon)
        assert weights(rest) == weights(whole), "resuming changed the weights"


def test_cpp_interrupted_while_it_waits():
    """The daemon stands still: the trainer hears the signal all the same, and keeps what it has."""
    need_cpp()
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=64, classes=3)
        command = [tool("train_cpu_cpp"), str(pictures), "--epochs", "0", "--checkpoint", str(home / "checkpoint")]
        environment = {**daemon.environment, "PENSTOCK_SOCKET": daemon.socket}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            while "training" not in process.stdout.readline():
                assert process.poll() is None
            daemon.process.send_signal(signal.SIGSTOP)
            try:
                wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S", "a trainer that waits")
                process.send_signal(signal.SIGINT)
                text = process.stdout.read()
            finally:
                daemon.process.send_signal(signal.SIGCONT)
        assert process.returncode == 0 and "interrupted" in text, text
        rest = run("train_cpu_cpp", *command[1:], "--steps", int(weights(text)[0]) + 1, "--resume", daemon=daemon)
        assert f"step {weights(text)[0]}, batch" in rest, rest


def test_cpp_refuses():
    need_cpp()
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=40, classes=2)
        keep = ("--checkpoint", home / "c")
        run("train_cpu_cpp", pictures, "--steps", "1", *keep, daemon=daemon)
        whole = (home / "c").read_bytes()
        for name, data, words in (("rubbish", b"rubbish" * 1000, "not a checkpoint"), ("cut", whole[:-4], "too short or too long"),
                                  ("long", whole + b"more", "too short or too long"), ("head", whole[:12], "not a checkpoint")):
            (home / name).write_bytes(data)
            assert words in run("train_cpu_cpp", pictures, "--checkpoint", home / name, "--resume", code=1, daemon=daemon), name
        assert "cannot read" in run("train_cpu_cpp", pictures, "--checkpoint", home / "gone", "--resume", code=1, daemon=daemon)
        assert "does not exist" in run("train_cpu_cpp", home / "gone", code=1, daemon=daemon)
        assert "dataset" in run("train_cpu_cpp", make_dataset(home / "e", per_class=41), *keep, "--resume", code=1, daemon=daemon)
        (home / "flat").mkdir()
        for path in (home / "e").rglob("*.jpg"):
            path.rename(home / "flat" / path.name)
        assert "class folders" in run("train_cpu_cpp", home / "flat", code=1, daemon=daemon)
        for wrong in (("--resume",), ("--steps",), ("--steps", "x"), ("--rate", "-1"), ("--what", "1"), ("more",)):
            assert "usage" in run("train_cpu_cpp", pictures, *wrong, code=2), wrong
        assert "TRAIN is missing" in run("train_cpu_cpp", code=2)


if __name__ == "__main__":
    run_tests(globals())
