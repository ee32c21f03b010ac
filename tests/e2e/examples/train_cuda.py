#!/usr/bin/env python3
"""train_cuda without a GPU: the whole program on an emulated one, with a real daemon; and, where it was built, that the program
itself says what it lacks."""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, Daemon, Skip, folder, make_dataset, run_tests, tool

SMALL = ("--batch-size", "8", "--image-size", "16", "--width", "8", "--blocks", "1", "--seed", "5", "--rate", "0.03")


def run(*command, code=0, daemon=None, program="train_cuda_twin", variables=None):
    environment = {**(daemon.environment if daemon else os.environ), **(variables or {})}
    if daemon:
        environment["PENSTOCK_SOCKET"] = daemon.socket
    result = subprocess.run([tool(program), *map(str, command)], capture_output=True, text=True, timeout=LIMIT, env=environment,
                            check=False)
    assert result.returncode == code, f"{command} ended with {result.returncode}: {result.stdout}{result.stderr}"
    return result.stdout + result.stderr


def weights(text):
    return re.search(r"after step (\d+), weights ([0-9a-f]{16})", text).groups()


def test_kernels_against_the_host():
    text = run(program="train_cuda_self_test_twin")
    assert text.splitlines()[-1].endswith(", 0 failed") and "FAILED" not in text, text
    assert int(text.splitlines()[-1].split()[0]) > 60, text


def test_learns_and_resumes_to_the_bit():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=16, classes=3)
        common = (pictures, *SMALL, "--steps", "16", "--every", "4")
        whole = run(*common, daemon=daemon)
        assert weights(whole)[0] == "16" and "6 batches" in whole and "3 classes" in whole, whole
        assert "ring: this process may write to the daemon's memory" in whole, whole
        losses = [float(value) for value in re.findall(r"loss +([0-9.]+) ", whole)]
        assert losses[-1] < losses[0] * 0.8, losses
        for word in ("accuracy", "images/s", "waited", "daemon", "device", "copies", "rate"):
            assert word in whole.splitlines()[5], whole

        checkpoint = home / "checkpoint"
        first = run(*common, "--checkpoint", checkpoint, "--stop-at", "8", daemon=daemon)
        assert weights(first)[0] == "8" and weights(first) != weights(whole), first
        rest = run(*common, "--checkpoint", checkpoint, "--resume", daemon=daemon)
        assert "going on after step 8 with batch 2 of epoch 1" in rest, rest
        assert weights(rest) == weights(whole), "resuming changed the weights"
        # Where all is done there is nothing to do, and the checkpoint stays.
        before = checkpoint.read_bytes()
        again = run(*common, "--checkpoint", checkpoint, "--resume", daemon=daemon)
        assert weights(again) == weights(whole) and checkpoint.read_bytes() == before, again
        assert sorted(path.name for path in home.iterdir() if "checkpoint" in path.name) == ["checkpoint"]


def test_interruption_keeps_the_place():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=16, classes=3)
        checkpoint = home / "checkpoint"
        common = (str(pictures), *SMALL, "--epochs", "1000", "--every", "1", "--checkpoint", str(checkpoint))
        environment = {**daemon.environment, "PENSTOCK_SOCKET": daemon.socket}
        with subprocess.Popen([tool("train_cuda_twin"), *common], env=environment, stdout=subprocess.PIPE, text=True) as process:
            while "epoch   1" not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            text = process.stdout.read()
        assert process.returncode == 0 and "interrupted" in text, text
        step = int(weights(text)[0])
        rest = run(*common, "--resume", "--stop-at", step + 2, daemon=daemon)
        whole = run(*common[:-2], "--stop-at", step + 2, daemon=daemon)
        assert weights(rest) == weights(whole), "resuming changed the weights"


def test_validation():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=16, classes=3)
        text = run(pictures, *SMALL, "--epochs", "2", "--validate", pictures, daemon=daemon)
        found = re.findall(r"validation after step (\d+)  loss +[0-9.]+  accuracy +[0-9.]+ %  of (\d+)", text)
        assert found == [("6", "48"), ("12", "48")], text
        # Looking does not change what is learned.
        assert weights(text) == weights(run(pictures, *SMALL, "--epochs", "2", daemon=daemon))


def test_interrupted_validation():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures, unseen = make_dataset(home / "d", per_class=8, classes=3), make_dataset(home / "e", per_class=40, classes=3)
        command = [tool("train_cuda_twin"), pictures, *SMALL[:2], "--image-size", "48", *SMALL[4:], "--epochs", "1", "--every", "1",
                   "--validate", unseen]
        environment = {**daemon.environment, "PENSTOCK_SOCKET": daemon.socket}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            while "step      3" not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            text = process.stdout.read()
        assert process.returncode == 0 and "interrupted after step 3" in text and "validation" not in text, text


def test_streams_of_the_configuration():
    with folder() as home:
        pictures = make_dataset(home / "d", per_class=15, classes=3)
        recipe = f"source: {pictures}, batch_size: 8, image_size"
        config = (f"streams:\n  learn: {{{recipe}: 16, seed: 5, drop_last: false}}\n  look: {{{recipe}: 16, train: false}}\n"
                  f"  large: {{{recipe}: 24, train: false}}\n")
        with Daemon(home, "--memory", "64M", config=config) as daemon:
            # 45 pictures: the sixth batch is short.
            common, checkpoint = ("stream:learn", *SMALL, "--steps", "8"), home / "checkpoint"
            whole = run(*common, "--validate", "stream:look", daemon=daemon)
            assert re.search(r"validation after step 6 .* of 45\n", whole) and "6 batches" in whole, whole
            run(*common, "--stop-at", "5", "--checkpoint", checkpoint, daemon=daemon)
            rest = run(*common, "--checkpoint", checkpoint, "--resume", daemon=daemon)
            assert weights(rest) == weights(whole), "resuming before a short batch changed the weights"
            text = run(*common, "--validate", "stream:large", code=1, daemon=daemon)
            assert "stream:large delivers batches of 8, 24 x 24 pixels; this run has 8, 16 x 16" in text, text


def test_bad_checkpoints():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=16, classes=3)
        good = home / "good"
        common = (pictures, *SMALL, "--steps", "9")
        run(*common, "--stop-at", "1", "--checkpoint", good, daemon=daemon)
        whole = good.read_bytes()

        def resume(content, *options, path=home / "bad"):
            if content is not None:
                path.write_bytes(content)
            return run(*common, *options, "--checkpoint", path, "--resume", code=1, daemon=daemon)

        assert "not a checkpoint" in resume(b"rubbish" * 1000)
        assert "not a checkpoint" in resume(whole[:100])
        assert "ends early, within its hash" in resume(whole[:-1])
        assert "ends early, within its loss scale" in resume(whole[:-9])
        assert "its hash differs" in resume(whole[:-5000] + bytes([whole[-5000] ^ 1]) + whole[-4999:])
        assert "its hash differs" in resume(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert "ends early, within its weights" in resume(whole[:3000])
        assert "cannot read" in resume(None, path=home / "gone")
        assert "--width 8, this run has 16" in resume(whole, "--width", "16")
        assert "--steps 9, this run has 10" in resume(whole, "--steps", "10")
        assert "--rate 0.03, this run has 0.5" in resume(whole, "--rate", "0.5")
        assert "cannot write" in run(*common, "--checkpoint", home / "no" / "where", code=1, daemon=daemon)
        # Another dataset's place is refused by the daemon, not taken for ours.
        other = make_dataset(home / "e", per_class=17, classes=3)
        text = run(other, *common[1:], "--checkpoint", good, "--resume", code=1, daemon=daemon)
        assert "cannot open the stream" in text, text


def test_bad_data():
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=16, classes=3)
        assert "is not below 2" in run(pictures, *SMALL, "--classes", "2", "--steps", "2", code=1, daemon=daemon)
        assert "cannot open the stream" in run(home / "gone", *SMALL, code=1, daemon=daemon)
        four = make_dataset(home / "four", per_class=4, classes=4)
        text = run(pictures, *SMALL, "--epochs", "1", "--validate", four, code=1, daemon=daemon)
        assert "label 3 is not below 3" in text and "step      6" in text, text
        assert "no emulated GPU 3" in run(pictures, *SMALL, "--device", "3", code=1, daemon=daemon)
        (home / "flat").mkdir()
        for path in pictures.rglob("*.jpg"):
            path.rename(home / "flat" / path.name)
        text = run(home / "flat", *SMALL, "--steps", "2", code=1, daemon=daemon)
        assert "without a label" in text and "folders named after the classes" in text, text


def test_bad_options():
    for options, words in {("--width", "12"): "multiple of 8 from 8 to 1024", ("--steps", "x"): "whole number from 1",
                           ("--batch-size", "1"): "from 2 to", ("--image-size", "4"): "from 8 to", ("--rate", "-1"): "number from 0",
                           ("--rate", "nan"): "number from 0", ("--steps", "1.5"): "whole number",
                           ("--memory", "gpu"): "expected auto, registered or ring", ("--prefetch", "65"): "from 1 to 64",
                           ("--steps", "1", "--epochs", "1"): "expected one of them", ("--resume",): "expected --checkpoint",
                           ("elsewhere",): "expected one SOURCE", ("--gpu",): "usage"}.items():
        assert words in run("somewhere", *options, code=2), options
    assert "expected a SOURCE" in run(code=2)
    for options in (["x"], ["1x"], ["-1"], ["1024"], [""], ["0", "1"]):
        assert "expected the GPU's number, 0 to 1023" in run(*options, code=2, program="train_cuda_self_test_twin"), options
    assert "no emulated GPU 3" in run("3", code=1, program="train_cuda_self_test_twin")
    assert "usage" in run("--help") and "usage" in run("-h")


def test_needs_a_gpu():
    """The program itself, on a machine without a GPU."""
    if not Path(tool("train_cuda")).exists():
        raise Skip("train_cuda is not built here")
    if Path("/dev/nvidiactl").exists():
        raise Skip("this machine has a GPU")
    text = run(code=1, program="train_cuda_self_test")
    assert "cannot use GPU 0" in text and "train_cpu trains without one" in text, text
    with folder() as home, Daemon(home, "--memory", "64M") as daemon:
        pictures = make_dataset(home / "d", per_class=16, classes=3)
        text = run(pictures, *SMALL, code=1, program="train_cuda", daemon=daemon)
        assert "cannot attach the stream to a GPU" in text and "train_cpu trains without one" in text, text
        text = run(pictures, *SMALL, code=1, program="train_cuda", daemon=daemon, variables={"LOCAL_RANK": "x"})
        assert "LOCAL_RANK" in text or "driver" in text, text


if __name__ == "__main__":
    run_tests(globals())
