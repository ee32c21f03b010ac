"""Makes the documentation's pictures from a real run on painted images; scripts/pictures starts it.

    pictures.py FOLDER      needs PENSTOCK_BIN, the Python package and Chromium

page.png: the page while two trainers read, and page-short.png, its most important parts. top.svg: `penstock top` at the same time. sheet.png: a contact
sheet of `penstock show`."""
import os
import subprocess
import sys
import time
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import harness  # noqa: E402
from browser import Browser  # noqa: E402

SECONDS = float(os.environ.get("PENSTOCK_PICTURE_SECONDS", "100"))
CONFIGURATION = """memory: 512M
streams:
  photos:
    source: {data}
    batch_size: 24
    image_size: 224
    seed: 1
  validation:
    source: {data}
    batch_size: 24
    image_size: 224
    train: false
"""
TRAINER = """import sys, time
import penstock

pace, loader = float(sys.argv[2]), penstock.Stream(sys.argv[1], framework="numpy", dtype="uint8")
while True:
    for number, batch in enumerate(loader):
        time.sleep(pace * (1 + (number // 60) % 3))
"""


def start_trainer(daemon, name, stream, pace):
    script = daemon.home / name
    script.write_text(TRAINER)
    environment = {**daemon.environment, "PENSTOCK_SOCKET": daemon.socket, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # Its command line is in the pictures.
    command = ["bash", "-c", 'exec -a python3 "$0" "$@"', sys.executable, name, stream, str(pace)]
    return subprocess.Popen(command, cwd=daemon.home, env=environment, stdin=subprocess.DEVNULL)


def page_pictures(browser, url, to):
    with browser.open(url, width=1100, height=900) as page:
        page.reads("photos", "#streams")
        time.sleep(SECONDS)
        # What differs from machine to machine, and paths of this one, stay out of the picture.
        page.value("""for (const title of ['#machine-title', '#about-title'])
                document.querySelector(title).closest('section').style.display = 'none';
            const streams = document.querySelector('#sheet-stream');
            streams.selectedIndex = [...streams.options].findIndex((option) => option.text.includes('photos'));
            streams.dispatchEvent(new Event('change'));""")
        page.value("document.querySelector('#sheet-show').click()")
        page.reads("sample", "#sheet")
        page.picture(to / "page.png")
        page.value("""for (const title of ['#stages-title', '#memory-title', '#streams-title', '#trainers-title'])
                document.querySelector(title).closest('section').style.display = 'none';
            document.querySelectorAll('#sheet > :nth-child(n + 9)').forEach((row) => { row.style.display = 'none'; });
            document.querySelector('footer').style.display = 'none';""")
        page.picture(to / "page-short.png")


def text_picture(words, path):
    """A terminal's text as SVG."""
    lines = words.rstrip("\n").split("\n")
    wide, high = max(map(len, lines)), len(lines)
    width, height = wide * 7.83 + 32, high * 17 + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
           'role="img" aria-label="A terminal">',
           f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#15191c"/>',
           '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13" fill="#d7dde0" xml:space="preserve">']
    for number, line in enumerate(lines):
        if line.strip():
            out.append(f'<text x="16" y="{27 + 17 * number}" textLength="{len(line) * 7.83:.1f}" xml:space="preserve">{escape(line)}</text>')
    path.write_text("\n".join([*out, "</g></svg>"]) + "\n", encoding="utf-8")


def shrink(path):
    """256 colors instead of 16 million: a third of the bytes. Left out where Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        return
    image = Image.open(path).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.FLOYDSTEINBERG)
    image.save(path, optimize=True)


def main(to):
    with harness.folder() as home, Browser() as browser:
        data = home / "photos"
        subprocess.run([harness.tool("make_dataset"), str(data), "--per-class", "150", "--min-side", "300", "--max-side", "520"],
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run([harness.tool("penstock"), "show", "photos", "--rows", "12", "--columns", "4", "--tile", "120", "--seed", "3",
                        "--output", str(to.resolve() / "sheet.png")], check=True, stdout=subprocess.DEVNULL, cwd=home)
        with harness.Daemon(home, "--http", "0", config=CONFIGURATION.format(data=data)) as daemon:
            trainers = [start_trainer(daemon, "train.py", "photos", 0.026), start_trainer(daemon, "validate.py", "validation", 0.25)]
            try:
                page_pictures(browser, daemon.status()["http"], to)
                top = subprocess.run([harness.tool("penstock"), "top", "--count", "2", "--socket", daemon.socket], check=True,
                                     env={**daemon.environment, "COLUMNS": "110", "LC_ALL": "C.UTF-8"}, capture_output=True, text=True)
            finally:
                for trainer in trainers:
                    trainer.kill()
                    trainer.wait()
    for name in ("page", "page-short", "sheet"):
        shrink(to / f"{name}.png")
    # The second screen, without its date.
    screens = [screen.partition("\n")[2] for screen in top.stdout.split("\n20")]
    text_picture(screens[-1], to / "top.svg")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
