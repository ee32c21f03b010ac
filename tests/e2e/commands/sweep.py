"""What `penstock bench` compares: sweeps, plots, the yardstick, PyTorch's DataLoader, the report page. No timing is asserted: what
is checked is what is measured, shown and said.

torch is not needed: the comparison's script runs on a FAKE torch, torchvision and PIL, folders of modules that this test writes and that
only know what the script asks of them. A real comparison needs the real ones."""
import contextlib
import html.parser
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import assert_clean, environment, refuse, run
from harness import LIMIT, Skip, folder, make_dataset, run_tests, tool, wait_until

SHORT = ["--seconds", "0.1", "-b", "8"]


def dataset(home, **keys):
    return make_dataset(home / "images", **{"per_class": 10, "classes": 3, "min_side": 64, "max_side": 96, **keys})


def bench(home, source, *args, code=0, env=None):
    """(JSON, stderr)."""
    out, err = run(home, "bench", source, "--json", *args, code=code, env=env)
    return json.loads(out), err


# ---- options that do not go together ----

def test_refusals():
    cases = [
        (["--sweep", "fleas=1"], "varies threads, batch-size or image-size (--sweep threads=1,2,4), got \"fleas\""),
        (["--sweep", "thread=1"], "did you mean threads?"),
        (["--sweep", "threads"], "--sweep threads=1,2,4"),
        (["--sweep", ""], "got \"\""),
        (["--sweep", "threads=2,1"], "rising order"),
        (["--sweep", "threads=0,1"], "from 1 to 1024"),
        (["--sweep", "threads=1", "--sweep", "threads=2"], "given twice"),
        (["--sweep", "threads=1..60", "--sweep", "batch-size=1,2"], "120 points"),
        (["--sweep", "threads=1"] * 9, "more than 8 times"),
        (["--sweep", "threads=1,2", "--threads", "2"], "--threads and --sweep threads cannot both be given"),
        (["--sweep", "image-size=64", "--image-size", "32"], "--image-size and --sweep image-size"),
        (["--rounds", "0"], "from 1 to 15"),
        (["--rounds", "16"], "from 1 to 15"),
        (["--plot", "there.gif"], "ends in neither"),
        (["--plot", "missing/there.svg"], ["cannot write missing/there.svg", "No such file"]),
        (["--report", "missing/there.html"], "No such file"),
        (["--report", "/"], "Is a directory"),
        (["--python", "python3"], "--python is for --compare"),
        (["--accelerators", "2", "--report", "a.html"], "--accelerators cannot be combined with --sweep"),
        (["--compare", "--trainers", "2"], "--trainers 2 cannot be given"),
    ]
    with folder() as home:
        for args, says in cases:
            refuse(home, "bench", "nowhere", *args, says=says)
        for args in (["--sweep", "image-size=64"], ["--yardstick"], ["--compare"]):
            refuse(home, "bench", "stream:a", *args, says=f"{args[0]} cannot be given for stream:a")
        refuse(home, "bench", "nowhere", "--yardstick", says="nowhere")
        assert_clean(home)


# ---- sweeps and plots ----

def marks(svg):
    """[(title, x, y, place)] of an SVG's marks; place is (x, y) on the paper. It must be well-formed."""
    space = "{http://www.w3.org/2000/svg}"
    found = []
    for mark in ElementTree.fromstring(svg).iter():
        if "data-x" not in mark.attrib:
            continue
        if mark.tag == space + "circle":
            place = float(mark.get("cx")), float(mark.get("cy"))
        else:
            corners = [tuple(map(float, p.split(","))) for p in mark.get("points").split()]
            place = sum(p[0] for p in corners) / len(corners), sum(p[1] for p in corners) / len(corners)
        found.append((mark.find(space + "title").text, float(mark.get("data-x")), float(mark.get("data-y")), place))
    return found


def zero_of(svg):
    """The place of 0 on the y axis: the letters of a tick are 5 below its line."""
    return float(re.search(r'<text x="[0-9.]*" y="([0-9.]*)"[^>]*text-anchor="end"[^>]*>0</text>', svg).group(1)) - 5


def assert_linear(pairs, room):
    """The places are a linear function of the values."""
    (v0, p0), (v1, p1) = min(pairs), max(pairs)
    for value, place in pairs:
        assert v1 == v0 or abs(p0 + (value - v0) / (v1 - v0) * (p1 - p0) - place) <= room, pairs


def test_sweep():
    """Two axes over tar files, with the yardstick: points with the same number of threads share its result."""
    with folder() as home:
        tars = dataset(home, tars=True, per_shard=12)
        plot, page = home / "plot.svg", home / "page.html"
        result, err = bench(home, f"{tars}/*.tar", "--sweep", "batch-size=4,8", "--sweep", "threads=1", "--image-size", "32", "--seconds", "0.1",
                            "--rounds", "1", "--yardstick", "--plot", plot, "--report", page)
        assert err == "", err
        assert result["sweep"] == {"batch-size": [4, 8], "threads": [1]} and result["rounds"] == 1 and result["compare"] is None
        points = result["points"]
        assert [(p["threads"], p["batch_size"], p["image_size"]) for p in points] == [(1, 4, 32), (1, 8, 32)]
        for point in points:
            assert not point["failed"] and point["images_per_s"]["median"] > 0 and point["batch_p99_ms"] > 0, point
        assert result["yardstick"]["files"] == 30 and sum(result["yardstick"]["left_out"].values()) == 0
        assert points[0]["yardstick_images_per_s"] == points[1]["yardstick_images_per_s"] != points[0]["images_per_s"]
        found = marks(plot.read_bytes())
        expected = [(title, p["batch_size"], p[key]["median"]) for title, key in (
            ("1 thread", "images_per_s"), ("libjpeg-turbo, 1 thread", "yardstick_images_per_s")) for p in points]
        assert [(t.rsplit(",", 1)[0], x, round(y, 1)) for t, x, y, _ in found] == expected, (found, expected)
        # Places are linear from the 0 of the axis on; the center of a square is the mean of its corners.
        assert_linear([(0, zero_of(plot.read_text())), *((y, place[1]) for _, _, y, place in found)], 0.1)
        assert_linear([(x, place[0]) for _, x, _, place in found], 0.1)
        words = plot.read_text()
        for label in ("samples per batch", "images/s", "1 round of 0.1 s"):
            assert f">{label}" in words, label
        assert len(marks(re.search("<svg.*?</svg>", page.read_text(), re.S).group())) == 4
        assert_clean(home)


def test_a_failing_point_costs_it_alone():
    """A batch that is larger than the dataset."""
    with folder() as home:
        images = dataset(home)
        result, err = bench(home, images, "--sweep", "batch-size=8,31", "--seconds", "0.1", "--rounds", "2", "--plot", home / "p.svg",
                            "--report", home / "p.html", code=1)
        good, bad = result["points"]
        assert not good["failed"] and good["images_per_s"]["median"] > 0
        assert bad["failed"] and bad["images_per_s"] is None and "batch 31" in err, err
        assert set(good) == set(bad) and all(bad[key] is None for key in ("batch_p99_ms", "cpu", "peak_memory_bytes", "verdict")), bad
        assert "<tr><td>-</td><td>31</td><td>224</td><td>-</td><td>-</td><td>-</td><td>failed</td></tr>" in (home / "p.html").read_text()
        assert len(marks((home / "p.svg").read_bytes())) == 1
        out, err = run(home, "bench", images, "--sweep", "batch-size=31,32", "--seconds", "0.1", code=2)
        assert out == "" and "batch 32" in err, (out, err)
        assert_clean(home)


def png_rows(data):
    """(width, height, bytes) of an RGB PNG, with its filters."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR"
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    at, packed = 8, b""
    while at < len(data):
        size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == int.from_bytes(data[at + 8 + size:at + 12 + size], "big")
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    return width, height, zlib.decompress(packed)


def test_one_run_over_time():
    """Without a comparison, the output is that of a plain bench."""
    with folder() as home:
        images = dataset(home)
        result, _ = bench(home, images, *SHORT, "--plot", home / "over.png", "--report", home / "page.html")
        assert result["images_per_s"] > 0 and "points" not in result and result["batch_size"] == 8
        width, height, rows = png_rows((home / "over.png").read_bytes())
        assert width == 1920 and len(rows) == height * (3 * width + 1)
        assert len(set(rows)) > 50  # lines and letters, with smooth edges
        with contextlib.suppress(ImportError):
            from PIL import Image
            with Image.open(home / "over.png") as picture:
                assert len(picture.convert("RGB").getcolors(1 << 20)) > 20
        assert_clean(home)


def test_nowhere_to_write():
    """With a full disk the figures are still printed, and the command says that the files could not be written."""
    with folder() as home:
        images = dataset(home)
        plot, page = home / "full.svg", home / "full.html"
        for path in (plot, page):
            path.symlink_to("/dev/full")
        out, err = run(home, "bench", images, *SHORT, "--rounds", "2", "--plot", plot, "--report", page, code=1)
        assert "verdict" in out and "2, interleaved" in out and out.split("threads", 1)[1].count("\n") > 2, out
        assert err.count("No space left on device") == 2 and str(plot) in err and str(page) in err, err
        assert_clean(home)


def test_interrupted():
    """Nothing is left behind, and none of the trainers, which it kills one after the other, is reported to have ended by itself."""
    with folder() as home:
        images = dataset(home)
        process = subprocess.Popen([tool("penstock"), "bench", str(images), "--sweep", "threads=1,2", "--seconds", "60", "-b", "8",
                                    "--trainers", "64", "--yardstick", "--report", str(home / "page.html")], env=environment(home),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: len(children.read_text().split()) == 65, "its daemon and trainers")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == -signal.SIGINT and out == err == b"", (process.returncode, out, err)
        assert not (home / "page.html").exists() and not list(home.glob("page.html.*"))
        assert_clean(home)


# ---- the yardstick ----

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108020000009077" "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082")


def test_yardstick():
    """Every file is decoded or counted as left out."""
    with folder() as home:
        images = dataset(home)
        files = sorted(images.rglob("*.jpg"))
        files[0].write_bytes(PNG)  # a PNG called .jpg
        files[1].write_bytes(b"no image at all")
        files[2].write_bytes(files[2].read_bytes()[:40])  # ends in its headers
        cut = files[3].read_bytes()
        files[3].write_bytes(cut[:len(cut) - 30])  # libjpeg-turbo warns, and fills up
        result, _ = bench(home, images, *SHORT, "--yardstick", "--rounds", "1", "--max-broken", "0.9", "--report",
                          home / "page.html")
        yardstick = result["yardstick"]
        assert (yardstick["samples"], yardstick["looked_at"], yardstick["files"]) == (30, 30, 27), yardstick
        assert yardstick["left_out"] == {"not-jpeg": 2, "colour": 0, "broken": 1, "too-large": 0, "unreadable": 0}, yardstick
        assert yardstick["bytes"] == sum(f.stat().st_size for f in files[3:])
        point, = result["points"]
        rate, measured = point["images_per_s"]["median"], point["yardstick_images_per_s"]["median"]
        assert measured > 0 and abs(point["yardstick_ratio"]["median"] - rate / measured) < 0.01 * rate / measured, point
        short, _ = bench(home, images, "--seconds", "0.00001", "-b", "8", "--yardstick", "--rounds", "1", "--max-broken", "0.9")
        point, = short["points"]
        assert point["yardstick_images_per_s"]["least"] > 0 and point["yardstick_ratio"]["median"] > 0, point
        words = Page((home / "page.html").read_text()).text
        assert any("27 of 30 files; left out: 2 not-jpeg, 1 broken" in text for text in words), words
        assert_clean(home)


def test_yardstick_of_nothing():
    with folder() as home:
        images = home / "images"
        images.mkdir()
        for i in range(8):
            (images / f"{i}.png").write_bytes(PNG)
        refuse(home, "bench", images, "-b", "4", "--yardstick", says="none of 8 samples is a JPEG")
        assert_clean(home)


# ---- the other loader ----

def fake_torch(home):
    """A FAKE torch, torchvision and PIL: they write what they are asked to do to a file, and hand the image bytes through."""
    path = home / "fake"
    modules = {
        "torch/__init__.py": """
            import os, time
            from . import utils
            __version__ = "0.0 <fake>"
            once = os.environ.get("FAKE_SLOW_ONCE")
            if once and not os.path.exists(once):
                open(once, "w").close()
                time.sleep(3)
            def manual_seed(seed): utils.data.asked["seed"] = seed
            """,
        "torch/utils/__init__.py": "from . import data",
        "torch/utils/data.py": """
            import json, os, time
            asked = {}
            class Dataset: pass
            class Sum(list):
                sum = lambda self: sum(list(self))
            class DataLoader:
                def __init__(self, dataset, worker_init_fn, **keys):
                    self.dataset, self.keys = dataset, keys
                    worker_init_fn(0)
                    asked.update(keys, samples=len(dataset))
                    with open(os.environ["FAKE_ASKED"], "w") as file:
                        json.dump(asked, file)
                    if os.environ.get("FAKE_ENDS"):
                        print("the fake's last words \\x1b[31m", file=__import__("sys").stderr)
                        os._exit(7)
                    time.sleep(float(os.environ.get("FAKE_SLEEPS", "0")))
                def __len__(self):
                    return len(self.dataset) // self.keys["batch_size"]
                def __iter__(self):
                    size = self.keys["batch_size"]
                    for i in range(len(self)):
                        pairs = [self.dataset[i * size + j] for j in range(size)]
                        yield [p for p, _ in pairs], Sum(b for _, b in pairs)
            """,
        "torchvision/__init__.py": '__version__ = "0.1"',
        "torchvision/transforms/__init__.py": """
            import enum, json, os
            class InterpolationMode(enum.Enum):
                BILINEAR = "bilinear"
                BICUBIC = "bicubic"
                LANCZOS = "lanczos"
            steps = []
            def step(name):
                def make(*args, **keys):
                    steps.append([name, *args, *(str(v) for v in keys.values())])
                    return lambda image: image
                return make
            RandomResizedCrop, RandomHorizontalFlip, Resize, CenterCrop, PILToTensor = map(
                step, ["RandomResizedCrop", "RandomHorizontalFlip", "Resize", "CenterCrop", "PILToTensor"])
            RandomChoice = lambda some: some[0]
            def Compose(chain):
                with open(os.environ["FAKE_ASKED"] + ".steps", "w") as file:
                    json.dump(steps, file)
                def call(image):
                    for one in chain:
                        image = one(image)
                    return image
                return call
            """,
        "PIL/__init__.py": '__version__ = "0.2"',
        "PIL/Image.py": """
            class DecompressionBombError(Exception): pass
            class Picture:
                def __init__(self, data): self.data = data
                def convert(self, mode):
                    if self.data[:2] != b"\\xff\\xd8" or self.data[-2:] != b"\\xff\\xd9":
                        raise OSError("no whole JPEG")
                    return self
            def open(file): return Picture(file.read())
            """,
    }
    for name, text in modules.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(textwrap.dedent(text))
    return environment(home, PYTHONPATH=path, FAKE_ASKED=home / "asked.json", PYTHONDONTWRITEBYTECODE=1)


def test_compare_without_torch():
    """Reported before anything is measured; nothing is left half done."""
    with folder() as home:
        images = dataset(home)
        env = environment(home)
        env.pop("PYTHONPATH", None)
        plain = [sys.executable, "-c", "import torch, torchvision"]
        if subprocess.run(plain, env=env, capture_output=True).returncode != 0:
            refuse(home, "bench", images, "--compare", "--python", sys.executable, "--report", home / "page.html",
                   says=["--compare needs PyTorch", "has no torch", "ModuleNotFoundError", "--python"], env=env)
        (home / "venv/bin").mkdir(parents=True)
        refuse(home, "bench", images, "--compare", says=[str(home / "venv/bin/python"), "cannot be used"],
               env={**env, "VIRTUAL_ENV": str(home / "venv")})
        for python, says in ((home / "none", "No such file"), (home, "Permission denied"), ("/bin/false", "cannot be used"),
                             ("/bin/echo", "cannot be used")):
            refuse(home, "bench", images, "--compare", "--python", python, says=["--compare needs a Python with PyTorch", says], env=env)
        half = fake_torch(home)
        (home / "fake/torchvision/transforms/__init__.py").write_text('raise RuntimeError("operator \\x1b[1m does not exist")')
        err = refuse(home, "bench", images, "--compare", "--python", sys.executable, says=["has no torchvision", "operator ?[1m does not"], env=half)
        assert "\x1b" not in err
        assert not (home / "page.html").exists() and not (home / "asked.json").exists()
        assert_clean(home)


def test_compare_with_a_fake_torch():
    """What the script does itself: which files, which options, what it counts."""
    with folder() as home:
        env = fake_torch(home)
        images = dataset(home)
        broken = sorted(images.rglob("*.jpg"))[5]
        broken.write_bytes(broken.read_bytes()[:200])
        page = home / "page.html"
        result, err = bench(home, images, *SHORT, "--compare", "--python", sys.executable, "--rounds", "1", "--threads", "1", "--seed", "5",
                            "--max-broken", "0.9", "--report", page, env=env)
        point, = result["points"]
        rate, torch = point["images_per_s"], point["torch_images_per_s"]
        assert len(torch["rounds"]) == 1 and torch["least"] > 0 and point["torch_broken"] > 0
        for i, times in enumerate(point["torch_times"]["rounds"]):
            assert abs(times - rate["rounds"][i] / torch["rounds"][i]) <= 0.002 * max(times, 1), point
        about = result["compare"]
        assert (about["torch"], about["torchvision"], about["pillow"]) == ("0.0 <fake>", "0.1", "0.2") and about["listed"] == 30
        assert json.loads((home / "asked.json").read_text()) == {
            "seed": 5, "batch_size": 8, "shuffle": True, "drop_last": True, "num_workers": 1, "persistent_workers": True,
            "multiprocessing_context": "fork", "samples": 30}
        assert json.loads((home / "asked.json.steps").read_text()) == [
            ["RandomResizedCrop", 224, "InterpolationMode.BILINEAR"], ["RandomHorizontalFlip"], ["PILToTensor"]]
        assert "DataLoader" in page.read_text() and "0.0 &lt;fake&gt;" in page.read_text()
        tars = make_dataset(home / "tars", per_class=10, tars=True, min_side=64, max_side=96, per_shard=12)
        result, _ = bench(home, f"{tars}/*.tar", *SHORT, "--compare", "--python", sys.executable, "--rounds", "1", "--eval", "--image-size",
                          "112", "--interpolation", "lanczos", env=env)
        assert result["points"][0]["torch_broken"] == 0 and result["points"][0]["torch_images_per_s"]["median"] > 0
        assert json.loads((home / "asked.json.steps").read_text()) == [
            ["Resize", 128, "InterpolationMode.LANCZOS"], ["CenterCrop", 112], ["PILToTensor"]]
        bench(home, f"{tars}/*.tar", *SHORT, "--compare", "--python", sys.executable, "--rounds", "1", "--eval", "--image-size", "112",
              "--interpolation", "random", env=env)
        assert json.loads((home / "asked.json.steps").read_text())[:2] == [
            ["Resize", 128, "InterpolationMode.BILINEAR"], ["Resize", 128, "InterpolationMode.BICUBIC"]]
        assert json.loads((home / "asked.json").read_text())["shuffle"] is False
        assert_clean(home)


def test_first_batch_is_the_loaders_alone():
    """The time to look for the other loader does not count: both fit into the time of the whole command."""
    with folder() as home:
        env = {**fake_torch(home), "FAKE_SLOW_ONCE": str(home / "once")}
        images = dataset(home)
        began = time.monotonic()
        out, _ = run(home, "bench", images, *SHORT, "--compare", "--python", sys.executable, "--rounds", "1", env=env)
        took = time.monotonic() - began
        assert re.search(r"\n +threads +images/s +p99 +memory +PyTorch +times\n", out), out
        assert not [line for line in out.splitlines()[1:] if len(line) > 80], out
        value, unit = re.search(r"first batch +([0-9.]+) (ms|s) ", out).groups()
        assert float(value) * {"ms": 1e-3, "s": 1}[unit] + 3 <= took, (out, took)
        assert_clean(home)


def test_compare_that_dies():
    """The figures of penstock are printed, and then what happened to the other loader."""
    with folder() as home:
        env = {**fake_torch(home), "FAKE_ENDS": "1"}
        result, err = bench(home, dataset(home), *SHORT, "--compare", "--python", sys.executable, "--rounds", "2", code=1, env=env)
        assert result["points"][0]["failed"] and result["points"][0]["images_per_s"]["median"] > 0
        assert "ended with 7" in err and "the fake's last words ?[31m" in err, err
        assert_clean(home)


def test_compare_interrupted():
    """Its Python dies with the command."""
    with folder() as home:
        env = {**fake_torch(home), "FAKE_SLEEPS": "100"}
        process = subprocess.Popen([tool("penstock"), "bench", str(dataset(home)), *SHORT, "--compare", "--python", sys.executable],
                                   env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: (home / "asked.json").exists(), "the fake torch")

        def pythons():
            found = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    if str(home).encode() in Path(f"/proc/{pid}/environ").read_bytes() and b"FAKE_SLEEPS" in Path(
                            f"/proc/{pid}/environ").read_bytes():
                        found.append(pid)
            return found

        assert pythons()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        assert process.returncode == -signal.SIGTERM
        wait_until(lambda: not pythons(), "its Python's end")
        assert_clean(home)


# ---- the page ----

class Page(html.parser.HTMLParser):
    """Its elements, attributes and text. End tags must match start tags."""
    EMPTY = {"meta", "br", "img", "link", "hr", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        self.text.append(data)


# A path: its slash parts two folders.
HOSTILE = "<img src=x onerror=alert(1)> \"q\" 'a' & </title><script>alert(2)"


def chromium():
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"] if program else None


def hostile_page(home):
    (home / HOSTILE).mkdir(parents=True)
    images = dataset(home / HOSTILE)
    page = home / "page.html"
    run(home, "bench", images, "--seconds", "0.1", "--sweep", "batch-size=8", "--rounds", "1", "--report", page)
    return images, page


def test_report():
    with folder() as home:
        images, path = hostile_page(home)
        text = path.read_text()
        page = Page(text)
        assert not {"img", "script", "link", "iframe", "object", "base", "form"} & set(page.tags), set(page.tags)
        assert not [a for a in page.attributes if a[0] in ("src", "href", "onerror", "onload", "action", "srcset")]
        assert "url(" not in text and "@import" not in text
        assert set(re.findall(r"https?://[^\s\"<]*", text)) == {"http://www.w3.org/2000/svg"}
        words = " ".join(page.text)
        assert str(images) in words  # as text, all of it
        command = next(t for t in page.text if t.startswith("penstock bench"))
        for part in ("Verdict", "Over time", "Batches", "99.9 %", "decode", "Memory and storage", "The machine", "kernel", "libjpeg-turbo",
                     "The sweep", "folder of class folders: 30 samples", "decoding threads"):
            assert part in words, part
        titles = re.findall(r"<h2>([^<]*)</h2>", text)
        assert titles[:4] == ["Verdict", "In short", "The machine", "The sweep"] and titles.count("The machine") == 1, titles
        verdict = text[text.index("<h2>Verdict"):text.index("<h2>In short")]
        found = json.loads(run(home, "bench", images, "--seconds", "0.1", "--sweep", "batch-size=8", "--rounds", "1", "--json")[0])
        assert ("<b>Remedy:</b> " in verdict) == ("class=\"remedy\"" in verdict) and "remedy" in found["points"][0], verdict
        assert "--sweep batch-size=8 --rounds 1" in " ".join(page.text[page.text.index(command):])
        assert "prefers-color-scheme:dark" in text and "width=device-width" in text and "Content-Security-Policy" in text
        assert_shown(home, path)


def assert_shown(home, path):
    """Chromium shows it at a phone's width, in light and dark."""
    browser = chromium()
    if not browser:
        raise Skip("the page is right, but no Chromium is installed to look at it")
    shot, env = home / "shot.png", {**environment(home), "HOME": str(home)}
    for name, scheme in (("light", 1), ("dark", 0)):
        done = subprocess.run([*browser, f"--user-data-dir={home / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}",
                               "--window-size=500,900", f"--screenshot={shot}", path.as_uri()], env=env, capture_output=True, timeout=LIMIT)
        assert done.returncode == 0 and shot.exists(), done.stderr[-500:]
        _, _, rows = png_rows(shot.read_bytes())
        assert len(set(rows)) > 50, "an empty page"
        if os.environ.get("PENSTOCK_TEST_SHOTS"):
            shutil.copy(shot, Path(os.environ["PENSTOCK_TEST_SHOTS"]) / f"report-{name}.png")
        with contextlib.suppress(ImportError):
            from PIL import Image
            with Image.open(shot) as picture:
                corner = picture.convert("L").getpixel((2, 2))
            assert corner > 200 if name == "light" else corner < 60, (name, corner)
        shot.unlink()


if __name__ == "__main__":
    run_tests(globals())
