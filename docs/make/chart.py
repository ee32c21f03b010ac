"""Draws docs/pictures/speed.svg from the measured figures in docs/evidence/speed.csv, which scripts/measure writes.

A bar is as long as the median, with a line from the least to the most; where no median is known, it is as long as the most.

    chart.py            writes the picture
    chart.py --check    exits with 1 when the picture is not what the figures make"""
import csv
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIGURES, PICTURE = ROOT / "docs/evidence/speed.csv", ROOT / "docs/pictures/speed.svg"
WIDTH, LEFT, RIGHT, ROW, TOP = 880, 310, 150, 25, 62
LEAST_SCALE = 6.5  # the ratio at the chart's right end, unless a bar is longer
OURS, OTHERS, INK, FAINT = "#0b6e8f", "#a9b4bc", "#1c2429", "#5d6a72"


def text(x, y, words, size=13, color=INK, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
            f'font-weight="{weight}" stroke="white" stroke-width="4" paint-order="stroke">{escape(words)}</text>')


def span(start, end, y):
    """From the least to the most."""
    return f'<line x1="{start:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{INK}" stroke-width="1"/>'


def draw(rows):
    out, y, group = [], TOP, None
    scale = (WIDTH - LEFT - RIGHT) / max([LEAST_SCALE, *(float(row["most"]) for row in rows)])
    for row in rows:
        if row["group"] != group:
            group = row["group"]
            y += 12
            out.append(text(16, y + 12, group, 12, FAINT, weight="bold"))
            y += 20
        least, most = float(row["least"]), float(row["most"])
        shown = float(row["median"] or most)
        ours = row["loader"].startswith("penstock")
        out.append(text(LEFT - 10, y + 15, row["loader"], anchor="end", weight="bold" if ours else "normal"))
        out.append(f'<rect x="{LEFT}" y="{y + 3}" width="{shown * scale:.1f}" height="{ROW - 7}" rx="2" fill="{OURS if ours else OTHERS}"/>')
        if most > least:
            out.append(span(LEFT + least * scale, LEFT + most * scale, y + ROW / 2 - 0.5) if row["median"] else
                       f'<line x1="{LEFT + least * scale:.1f}" x2="{LEFT + least * scale:.1f}" y1="{y + 3}" y2="{y + ROW - 4}" stroke="white"/>')
        label = f"{shown:.2f}" if row["median"] else f"{least:.2f} to {most:.2f}"
        out.append(text(LEFT + most * scale + 7, y + 15, label, weight="bold" if ours else "normal"))
        if row["note"]:
            out.append(text(LEFT + most * scale + 7 + 6.6 * len(label) + 12, y + 15, row["note"], 12, FAINT))
        y += ROW
    height = y + 46
    runs = list(dict.fromkeys(row["run"] for row in rows))
    line = LEFT + scale
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img" aria-label="Rates of loaders">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="white"/>',
        text(16, 28, "Images per second, as a share of libjpeg-turbo's full decode of the same files", 16, weight="bold"),
        text(16, 48, "RandomResizedCrop to 224 and flip, batch 64, uint8, page cache warm", 12, FAINT),
        f'<line x1="{line:.1f}" x2="{line:.1f}" y1="{TOP + 12}" y2="{y + 4}" stroke="{INK}" stroke-dasharray="3 3"/>',
    ]
    tail = [text(line, y + 20, "1.00: full decode by libjpeg-turbo", 12, FAINT, "middle"),
            text(16, y + 36, f"One run: {runs[0]}" if len(runs) == 1 else "The rows come from different runs: compare the ratios.", 12, FAINT), "</svg>"]
    return "\n".join([*head, *out, *tail]) + "\n"


def main():
    with open(FIGURES, newline="", encoding="utf-8") as file:
        made = draw(list(csv.DictReader(file)))
    if sys.argv[1:] == ["--check"]:
        if PICTURE.read_text(encoding="utf-8") != made:
            sys.exit(f"{PICTURE.relative_to(ROOT)} is not what {FIGURES.relative_to(ROOT)} makes: run docs/make/chart.py")
    else:
        PICTURE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
