#!/usr/bin/env python3
"""scripts/measure and docs/make/measured.py without measuring: what is listed and refused, regions of pages, other loaders' output, the chart's
figures. Works on copies of the pages.

    measuring.py [TEST...]"""
import csv
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder_ in ("tests/e2e", "docs/make", "tests/bench"):
    sys.path.insert(0, str(ROOT / folder_))
import chart  # noqa: E402
import harness  # noqa: E402
import measured  # noqa: E402

MACHINE = {"key": "Made-up CPU (family 1, model 2), 2 cores", "model": "Made-up CPU (family 1, model 2)", "cores": 2, "vectors": "AVX2, no AVX-512",
           "kernel": "6.1", "memory_gib": 16, "load": "otherwise idle"}
TABLE = ("Rates of a run that never was, in a sentence that is long enough to be wrapped at a hundred columns, as prose is:\n\n"
         "| a | b |\n|---|---|\n| 1 | 2 |\n")


def program(path):
    """A program of the tree as a module."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages(home):
    """A copy of what results are written into."""
    shutil.copytree(ROOT / "docs/evidence", home / "docs/evidence")
    shutil.copytree(ROOT / "docs/pictures", home / "docs/pictures")
    shutil.copy(ROOT / "README.md", home / "README.md")
    return home


def result(**keys):
    return {"part": "groups", "region": "groups", "page": "docs/evidence/measured/groups.md", "machine": MACHINE, "commit": "0123456789ab",
            "date": "2026-01-02", "images": 500, "short": False, "command": "tests/bench/groups.py build/release IMAGES", "text": TABLE,
            "heading": False,
            "figures": None, **keys}


def speed(peers):
    rows = [{"row": row, "kernels": "chosen", "ratios": ratios} for row, ratios in
            (("first-epoch", [1.9, 2.1, 2.0]), ("entry-points", [3.1, 3.0, 3.2]), ("packed", [3.3, 3.3, 3.3]), ("packed-400", [9.1, 9.0, 9.2]))]
    return result(part="speed", region="speed", page="docs/evidence/peers.md", text="", figures={"rates": {"rows": rows}, "peers": peers})


def run(home, *arguments, status=0):
    done = subprocess.run([ROOT / "scripts/measure", *map(str, arguments)], cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    assert done.returncode == status, f"{arguments}: ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def in_copy(test):
    def with_copy():
        with tempfile.TemporaryDirectory() as name:
            test(pages(Path(name)))
    return with_copy


def test_list():
    """Every part's page and region exist, and its program."""
    module = program("tests/bench/measure.py")
    listed = run(ROOT, "--list")
    for part in module.PARTS:
        assert re.search(rf"^{part.name} +{part.page} +{part.minutes} min", listed, re.MULTILINE), f"{part.name} is not listed"
        measured.sections(measured.region((ROOT / part.page).read_text(encoding="utf-8"), part.name)[1])
        first = part.command[0] if part.command else ""
        assert not first.endswith(".py") or os.access(ROOT / first, os.X_OK), f"{first} is no program"


def test_every_region_has_a_part():
    """No page has a region that nothing writes."""
    known = {part.name for part in program("tests/bench/measure.py").PARTS} | {"footnote"}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for name in re.findall(r"^<!-- measured: (.+) -->$", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert name in known, f"{path.name}: nothing writes the region {name}"


def test_refusals():
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        images, build = home / "images", home / "build"
        images.mkdir()
        (images / "a_0.jpg").write_bytes(b"")
        build.mkdir()
        cache = build / "CMakeCache.txt"

        def refused(words, *arguments):
            said = run(home, *arguments, status=2)
            assert words in said, f"{arguments}: {said}"

        refused("name a folder of JPEGs with --images")
        refused("there is no such folder", "--images", home / "none")
        refused("no JPEG lies in the folder itself", "--images", build)
        refused("is no build", "--images", images, "--build", build)
        cache.write_text("CMAKE_BUILD_TYPE:STRING=Debug\n")
        refused("a build of type Debug", "--images", images, "--build", build)
        cache.write_text("CMAKE_BUILD_TYPE:STRING=Release\nPENSTOCK_SANITIZE:STRING=address\n")
        refused("sanitizers", "--images", images, "--build", build)
        cache.write_text("CMAKE_BUILD_TYPE:STRING=Release\nPENSTOCK_SANITIZE:STRING=\n")
        refused("there is no yardstick", "--images", images, "--build", build, "--yardstick", home / "none")
        refused("there is no such part", "--images", images, "--build", build, "--dirty", "rate")
        refused("speed needs --peers COMMAND", "--images", images, "--build", build, "--dirty", "speed")
        short = home / "short.json"
        short.write_text(json.dumps(result(short=True)))
        refused("whose figures mean nothing", "--write", short)


def test_changed_tree():
    """A commit must name what is measured; pages that were written before do not count."""
    if not shutil.which("git"):
        raise harness.Skip("git is missing")
    module = program("tests/bench/measure.py")
    with tempfile.TemporaryDirectory() as name:
        module.ROOT = home = Path(name)
        assert module.commit_of(True) == "unknown"
        try:
            raise AssertionError(module.commit_of(False))
        except module.Refused as why:
            assert "no history" in str(why)
        for words in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "a"]):
            subprocess.run(["git", "-C", home, *words], check=True)
        clean = module.commit_of(False)
        (home / "README.md").write_text("written by a run")
        assert re.fullmatch(r"[0-9a-f]{12}", clean) and module.commit_of(False) == clean
        (home / "code.c").write_text("")
        try:
            raise AssertionError(module.commit_of(False))
        except module.Refused as why:
            assert "not committed" in str(why)
        assert module.commit_of(True) == f"{clean} with changes"


@in_copy
def test_section(home):
    """A machine's first result becomes the first section, and its second one replaces it. Nothing else of the page changes."""
    kept = home / "result.json"
    page = home / "docs/evidence/measured/groups.md"
    before = page.read_text(encoding="utf-8")
    others = measured.sections(measured.region(before, "groups")[1])
    assert others
    for date in ("2026-01-02", "2026-03-04"):
        kept.write_text(json.dumps(result(date=date)))
        assert "groups.md" in run(home, "--write", "--root", home, kept)
        now = page.read_text(encoding="utf-8")
        head, within, tail = measured.region(now, "groups")
        found = measured.sections(within)
        assert list(found) == [MACHINE["key"], *others] and all(found[key] == text for key, text in others.items())
        mine = found[MACHINE["key"]]
        assert date in mine and "0123456789ab" in mine and "| 1 | 2 |" in mine and "AVX2, no AVX-512" in mine
        assert (head, tail) == tuple(measured.region(before, "groups")[::2])
    assert "2026-01-02" not in now
    assert max(len(line) for line in mine.splitlines() if not line.startswith("|")) <= 100


@in_copy
def test_heading(home):
    """Where a page has headings for machines, a result's section begins with one, and the page is still one that docs.pages accepts."""
    measured.write(home, result(heading=True, region="rates", page="docs/evidence/measured/decode.md"))
    text = (home / "docs/evidence/measured/decode.md").read_text(encoding="utf-8")
    assert f"\n## {MACHINE['key']}\n\n**" in text and "## Another processor\n" in text
    assert not list(program("tests/docs/pages.py").check_markdown_width("decode.md", text))


@in_copy
def test_damaged_region(home):
    """A region that is gone, twice there or without an end is an error, and the page stays."""
    page = home / "docs/evidence/measured/groups.md"
    whole = page.read_text(encoding="utf-8")
    begin, end = measured.marks("groups")
    for broken in (whole.replace(begin, ""), whole.replace(begin, begin + begin), whole.replace(end, "")):
        page.write_text(broken, encoding="utf-8")
        try:
            raise AssertionError(measured.write(home, result()))
        except ValueError as why:
            assert "region" in str(why)
        assert page.read_text(encoding="utf-8") == broken


def test_peers():
    """Both forms of what a command prints, and what it says of loaders that failed."""
    table = ("peer                                images/s  of full decode\nWebDataset PIL                           700            0.44\n"
             "tf.data                                1,628            0.98\nDALI CPU                           failed: see errors.log\n")
    assert measured.peer_rates(table) == ([("WebDataset PIL", 700.0, 0.44), ("tf.data", 1628.0, 0.98)], ["DALI CPU"])
    lines = ('{"name": "libjpeg-turbo full decode", "images_per_s": 1000}\n{"name": "tf.data", "images_per_s": 900}\n'
             '{"name": "libjpeg-turbo full decode", "images_per_s": 500}\n{"name": "DALI CPU", "images_per_s": 400}\n'
             '{"name": "FFCV asis", "failed": true}\n')
    assert measured.peer_rates(lines) == ([("tf.data", 900, 0.9), ("DALI CPU", 400, 0.8)], ["FFCV asis"])
    try:
        raise AssertionError(measured.peer_rates('{"name": "tf.data", "images_per_s": 900}\n'))
    except ValueError as why:
        assert "no ratio" in str(why)


@in_copy
def test_speed(home):
    """The chart's figures, the chart, README's sentence and the page's table follow from one result."""
    kept = home / "result.json"
    kept.write_text(json.dumps(speed([{"rates": [["torchvision v2 + DataLoader", 500, ratio], ["Another one", 1, 1]], "failed": ["DALI CPU"]}
                                      for ratio in (0.5, 0.52, 0.48)])))
    run(home, "--write", "--root", home, kept)
    with (home / measured.SPEED).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with (ROOT / measured.SPEED).open(newline="", encoding="utf-8") as file:
        before = list(csv.DictReader(file))
    new = {row["loader"]: row for row in rows if MACHINE["model"] in row["run"]}
    assert set(new) == {"torchvision v2, DataLoader", *(place[1] for place in measured.OURS.values())}
    assert [new["penstock, first epoch"][key] for key in ("median", "least", "most")] == ["2.00", "1.90", "2.10"]
    assert [row for row in rows if row["loader"] not in new] == [row for row in before if row["loader"] not in new]
    assert [row["group"] for row in rows] == sorted((row["group"] for row in rows), key=[measured.PLAIN, measured.LOSSLESS, measured.LOSSY].index)
    assert (home / "docs/pictures/speed.svg").read_text(encoding="utf-8") == chart.draw(rows)
    readme = (home / "README.md").read_text(encoding="utf-8")
    assert "4.0 times as many images per second as PyTorch's" in " ".join(measured.region(readme, "speed")[1].split())
    assert "6.2 times as many later" in " ".join(measured.region(readme, "speed")[1].split())
    assert "different runs" in " ".join(measured.region(readme, "footnote")[1].split())
    pages_test = program("tests/docs/pages.py")
    assert readme.count("\n") <= pages_test.README_LINES and not list(pages_test.check_markdown_width("README.md", readme))
    section = measured.sections(measured.region((home / "docs/evidence/peers.md").read_text(encoding="utf-8"), "speed")[1])[MACHINE["key"]]
    assert "| **penstock, later epochs** | 3.10 | 3.00 to 3.20 |" in section and "DALI CPU" in section and "WebDataset" not in section


def test_one_run():
    """Figures of one run only: chart and footnote say so."""
    rows = [{"group": measured.PLAIN, "loader": "penstock, first epoch", "median": "2.00", "least": "1.90", "most": "2.10", "note": "",
             "run": "here"}]
    assert "One run: here" in chart.draw(rows) and "different runs" not in chart.draw(rows)
    assert "All were measured in one run (here)" in " ".join(measured.footnote(rows, {"images": 5}).split())


def test_failures():
    """A missed bar is a result; a program that fails is not, whatever it has printed."""
    failed = program("tests/bench/measure.py").failed
    assert not failed(0, TABLE, "") and not failed(1, TABLE + "| x | MISSED |", "")
    assert failed(1, TABLE, "") and failed(2, TABLE + "MISSED", "") and failed(0, "", "") and failed(-9, TABLE, "")
    assert failed(1, TABLE + "| x | MISSED |", "Traceback (most recent call last):\n")
    assert failed(1, TABLE + "| s3 | ended | with an error | none | MISSED | why |", "")


def test_hand_over():
    """The time of the hand-over, wherever a report has it; a report without it is no error."""
    announced = program("tests/bench/rates.py").announced
    assert announced({"announce_p50_us": 50.5, "announce_p99_us": 90}) == (50.5, 90)
    assert announced({"announce_us": {"p50": 51, "p99": 91, "max": 100}}) == (51, 91)
    for report in ({}, {"announce_p50_us": None, "announce_p99_us": None}, {"announce_us": None}, {"announce_us": {"p50": 1}}):
        assert announced(report) is None


if __name__ == "__main__":
    harness.run_tests(globals())
