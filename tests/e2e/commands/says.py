"""What `penstock status`, `penstock show` and the log say of a stream, and of what could not be kept. Only the standard library.

    says.py [PATTERN ...]                     the tests
"""
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, Daemon, folder, make_dataset, run_tests, tool, wait_until

CONFIG = """
threads: 1
streams:
  train: {{source: "{0}", image_size: {{0: 24, 1: 32}}, batch_size: 4, weights: balanced, split: "[:90%]", views: 2, repeats: 2, labels: {{manifest: "{1}"}}}}
  other: {{source: "{0}", image_size: 16, batch_size: 4, train: false,
           transforms: [{{Resize: {{size: [16, 16]}}}}]}}
  tall: {{source: "{0}", image_size: [32, 16], batch_size: 4, salt: s}}
  grows: {{source: "{0}", image_size: {{0: 24, 1: 32}}, batch_size: 4, transforms: [{{RandomResizedCrop: {{size: 32}}}}]}}
"""
DRAWN = "drawn by weights, of [:90%], each 2 times, seed 0"


def penstock(daemon, *words):
    answer = subprocess.run([tool("penstock"), *map(str, words)], env={**daemon.environment, "PENSTOCK_SOCKET": daemon.socket},
                            capture_output=True, text=True, timeout=LIMIT)
    assert answer.returncode == 0, (words, answer.stderr)
    return answer.stdout


def flat(text):
    return " ".join(text.split())


def sheet(daemon, home, stream, epoch):
    return json.loads(penstock(daemon, "show", f"stream:{stream}", "--epoch", epoch, "--json", "--output", home / "sheet.png"))["recipe"]


def manifest(home, images):
    names = sorted(str(path.relative_to(images)) for path in images.rglob("*") if path.suffix in (".jpg", ".jpeg", ".png"))
    (home / "labels.csv").write_text("".join(f"{name},{i % 2}\n" for i, name in enumerate(names)))
    return home / "labels.csv"


def test_one_line_of_a_stream_everywhere():
    """With the size of the epoch that is drawn, and which samples there are; the log has the stream's name."""
    with folder() as home:
        images = make_dataset(home / "images", min_side=24, max_side=48)
        labels = manifest(home, images)
        with Daemon(home, config=CONFIG.format(images, labels)) as daemon:
            for epoch, side in ((0, 24), (1, 32)):
                want = f"training, {side} px (0: 24, 1: 32), batch 4, 2 views, {DRAWN}"
                assert sheet(daemon, home, "train", epoch) == want, sheet(daemon, home, "train", epoch)
                want = f"training, {side} px (0: 24, 1: 32), batch 4, shuffled, seed 0, RandomResizedCrop {side}"
                assert sheet(daemon, home, "grows", epoch) == want, sheet(daemon, home, "grows", epoch)
            trainer = daemon.trainer(source="stream:train", epochs=0, sleep_ms=1000)
            trainer.line()
            told = flat(penstock(daemon, "status"))
            assert f"training, 24 px (0: 24, 1: 32), batch 4, 2 views, {DRAWN}" in told and " 4x24 " in told, told
            assert flat(f"labels by manifest: {labels}") in told, told
            stream, = daemon.status()["streams"]
            assert stream["weights"] == "balanced" and stream["split"] == "[:90%]" and stream["repeats"] == 2, stream
            assert stream["labels"] == {"manifest": str(labels)}, stream
            trainer.process.kill()
            trainer.process.communicate(timeout=LIMIT)
            tall = daemon.trainer(source="stream:tall", epochs=0, sleep_ms=1000)
            tall.line()
            told = flat(penstock(daemon, "status"))
            assert "training, 32 x 16 px, batch 4, shuffled, seed 0, salt s " in told and " 4x32x16 " in told, told
            tall.process.kill()
            tall.process.communicate(timeout=LIMIT)
            count = len([path for path in images.rglob("*") if path.suffix in (".jpg", ".jpeg", ".png")])
            daemon.batches(source=images, image_size=16, batch_size=4, epochs=1)
            daemon.batches(source=images, image_size=16, batch_size=count, epochs=1)
            assert f": {count} samples, 1 batch of {count} an epoch, " in daemon.text(), daemon.text()
            for call in (f"stream train ({images}): ", f"stream grows ({images}): ", f"stream of {images}: "):
                assert call in daemon.text(), (call, daemon.text())


def test_what_could_not_be_kept():
    with folder() as home:
        images = make_dataset(home / "images", min_side=24, max_side=48)
        (home / "file").write_text("no folder")
        with Daemon(home, "--threads", 1, "--recorder", home / "file/below", environment={"XDG_CACHE_HOME": str(home / "file")}) as daemon:
            wait_until(lambda: "file/below: Not a directory" in daemon.text(), "the recorder's note")
            daemon.batches(source=images, image_size=16, batch_size=4, epochs=1)
            wait_until(lambda: daemon.status()["checkpoints_kept"] == "not kept", "the checkpoints' note")
            told = flat(penstock(daemon, "status"))
            assert "entry points not kept (see the note)" in told and "recorder none (see the note)" in told, told
            assert "1 of 1 index (" in daemon.text() and ") is kept in a temporary file and must be built again" in daemon.text(), daemon.text()
        with Daemon(home, "--threads", 1) as daemon:
            wait_until(lambda: daemon.status()["recorder"]["writes"], "the recorder's file")
            told = flat(penstock(daemon, "status"))
            assert "entry points kept " in told and f"recorder {home}" in told, told


def test_images_that_need_no_checkpoints():
    """Small ones: it says so, instead of nothing of them."""
    with folder() as home:
        images = make_dataset(home / "images", min_side=24, max_side=48)
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}
        command = [tool("penstock"), "check", str(images), "--index"]
        text = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=LIMIT).stdout
        told = json.loads(subprocess.run([*command, "--json"], env=environment, check=True, capture_output=True, timeout=LIMIT).stdout)
        counts = told["checkpoints"]
        assert counts["needless"] > 0 and counts["made"] == 0, counts
        assert counts["kept"] + counts["needless"] == told["decoded"], told
        assert f"entry points: {counts['kept']} made, 0 already there; {counts['needless']} images have none (small, progressive or PNG)" in text, text


def test_a_verdict_names_its_window():
    """A trainer that computes all the time: the shares of the verdict are of another time than the table's."""
    with folder() as home:
        images = make_dataset(home / "images", min_side=24, max_side=48)
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}
        text = subprocess.run([tool("penstock"), "bench", str(images), "--seconds", "2", "--step-ms", "100", "--batch-size", "4",
                               "--image-size", "16", "--threads", "1"], env=environment, check=True, capture_output=True, text=True,
                              timeout=LIMIT).stdout
        verdict = flat(text[text.index("  verdict "):])
        assert verdict.startswith("verdict trainer-bound, ") and "%" in verdict, verdict
        assert " The verdict is about the daemon's last ten seconds; the lines above cover 2.0" in verdict, verdict
        assert "(" not in verdict and ")" not in verdict, verdict


def test_bench_names_a_remedy_and_its_files():
    """The remedy is on a line of its own; nobody trains, so no number of cores "would feed" anybody. What was written is named."""
    with folder() as home:
        images = make_dataset(home / "images", per_class=8, min_side=500, max_side=700)
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}
        command = [tool("penstock"), "bench", str(images), "--seconds", "3", "--batch-size", "8", "--memory", "96M"]
        files = [home / "plot.svg", home / "report.html"]
        text = subprocess.run([*command, "--plot", files[0], "--report", files[1]], env=environment, check=True, capture_output=True,
                              text=True, timeout=LIMIT).stdout
        lines = {line[:17].strip(): line[17:].strip() for line in text.splitlines()}
        assert lines["verdict"].startswith(("decode-bound", "disk-bound", "memory-bound")), text
        assert lines["remedy"], text
        assert "would feed" not in text and "would feed" not in files[1].read_text(), text
        for path in files:
            assert path.exists() and flat(f"wrote {path}") in flat(text), text
        told = json.loads(subprocess.run([*command, "--threads", "1", "--json"], env=environment, check=True, capture_output=True,
                                         timeout=LIMIT).stdout)
        assert told["remedy"] and "would feed" not in told["remedy"], told
        idle = told["bottleneck"]["cpus_idle"]
        if told["verdict"].endswith("1 decoding thread") and idle is not None and idle > 0.6:
            assert told["remedy"].startswith("try --threads "), told


def test_one_number_of_threads_everywhere():
    """Without --threads: what `check` announces, and what a daemon, `status` and `bench` use."""
    with folder() as home:
        images = make_dataset(home / "images", min_side=24, max_side=48)
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}

        def told(*words):
            return json.loads(subprocess.run([tool("penstock"), *map(str, words), "--json"], env=environment, check=True,
                                             capture_output=True, timeout=LIMIT).stdout)
        check = told("check", images)
        threads = check["use"]["threads"]
        assert threads == max(1, check["machine"]["cpus"] - 1), check
        assert told("bench", images, "--seconds", "0.2", "--batch-size", "4", "--image-size", "16")["threads"] == threads
        with Daemon(home) as daemon:
            assert daemon.status()["threads"] == threads
            assert f"threads {threads} decoding" in flat(penstock(daemon, "status"))


if __name__ == "__main__":
    run_tests(globals())
