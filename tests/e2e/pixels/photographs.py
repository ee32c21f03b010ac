"""The photographs of tests/photographs.py: of several sizes, samplings and encoders, the same in every run, and left alone when they
cannot be fetched."""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, PHOTOGRAPHS, ROOT, Skip, folder, run_tests

SCRIPT = ROOT / "tests/photographs.py"
FETCHED = ROOT / ".venv/photographs"


def fetched():
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        from photographs import version
        if not (FETCHED / "version").is_file() or (FETCHED / "version").read_text() != version():
            raise Skip(f"{FETCHED} is not of this version: scripts/install-deps gets the photographs")
    except ImportError as missing:
        raise Skip(f"{missing} (scripts/install-deps makes a virtual environment with Pillow)") from missing
    finally:
        sys.path.pop(0)
    return sorted(FETCHED.glob("*.JPEG"))


def script(*arguments, **environment):
    return subprocess.run([sys.executable, SCRIPT, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, timeout=LIMIT)


def test_they_are_of_many_kinds():
    from PIL import Image, JpegImagePlugin
    files, sizes, samplings, tables = fetched(), set(), {}, set()
    assert len(files) >= 50, len(files)
    for path in files:
        with Image.open(path) as image:
            assert image.format == "JPEG", path
            sizes.add(image.size)
            kind = "gray" if image.mode == "L" else JpegImagePlugin.get_sampling(image)
            samplings[kind] = samplings.get(kind, 0) + 1
            tables.add(tuple(image.quantization[0]))
    assert len(sizes) >= 15 and len(tables) >= 20, (sizes, len(tables))
    assert all(samplings.get(kind, 0) >= 5 for kind in ("gray", 0, 1, 2)), samplings


def test_every_build_has_them():
    missing = [path.name for path in fetched() if not (PHOTOGRAPHS / path.name).is_file()]
    assert not missing, f"{PHOTOGRAPHS} lacks {missing}: run cmake again"
    assert all((PHOTOGRAPHS / path.name).read_bytes() == path.read_bytes() for path in fetched())


def test_they_stay_when_the_packages_cannot_be_had():
    """The version is another one, and the index of packages does not answer."""
    fetched()
    with folder() as home:
        here = home / "photographs"
        here.mkdir()
        (here / "version").write_text("of before")
        (here / "a.JPEG").write_bytes(b"one")
        answer = script(here, PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_EXTRA_INDEX_URL="", PIP_FIND_LINKS="", PIP_NO_INDEX="", PIP_RETRIES="0",
                        PIP_CONFIG_FILE=os.devnull)
        assert answer.returncode != 0, answer
        assert sorted(os.listdir(home)) == ["photographs"] and sorted(os.listdir(here)) == ["a.JPEG", "version"]


def test_what_is_there_is_kept():
    """Without asking anybody, since there is nobody to ask."""
    fetched()
    before = {path: path.stat().st_ino for path in FETCHED.iterdir()}
    answer = script(FETCHED, PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0")
    assert answer.returncode == 0 and not answer.stderr, answer
    assert {path: path.stat().st_ino for path in FETCHED.iterdir()} == before


def test_bad_arguments():
    for arguments in ((), ("--help",), ("a", "b")):
        answer = script(*arguments)
        assert answer.returncode == 1 and "photographs.py FOLDER" in answer.stderr, answer
    with folder() as home:
        answer = script(home / "none/photographs")
        assert answer.returncode == 1 and "does not exist" in answer.stderr and "Traceback" not in answer.stderr, answer


if __name__ == "__main__":
    run_tests(globals())
