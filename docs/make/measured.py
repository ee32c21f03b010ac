"""The parts of pages that measurements write: regions between HTML comments, docs/evidence/speed.csv, and what follows from it.

    <!-- measured: NAME -->
    ...
    <!-- /measured -->

A region of a page of docs/evidence has a section for each machine that was measured, which begins with a comment of its own:
`<!-- machine: KEY -->`, and on some pages with a heading. A new result replaces the section of its machine, or becomes the first section;
the others stay. The regions of README.md have one text, which follows from speed.csv and is replaced. scripts/measure calls this; only
the standard library."""
import csv
import io
import json
import re
import statistics
import textwrap
from pathlib import Path

import chart

WIDTH = 100
SPEED = "docs/evidence/speed.csv"
COLUMNS = ["group", "loader", "median", "least", "most", "note", "run"]
PLAIN, LOSSLESS, LOSSY = "Files as they are", "Rewritten without loss", "Rewritten with loss"
# What a loader calls itself: (group, its name in the chart, note). The chart has this order, and penstock's rows behind each group's.
PEERS = {
    "WebDataset PIL": (PLAIN, "WebDataset, PIL", ""),
    "torchvision PIL + DataLoader": (PLAIN, "torchvision PIL, DataLoader", "the pixels that penstock equals"),
    "torchvision v2 + DataLoader": (PLAIN, "torchvision v2, DataLoader", ""),
    "DALI CPU, antialiased": (PLAIN, "DALI on the CPU, antialiased", ""),
    "DALI CPU": (PLAIN, "DALI on the CPU", "no antialiasing"),
    "tf.data": (PLAIN, "tf.data, decode_and_crop", "fast DCT, no antialiasing"),
    "FFCV asis": (LOSSY, "FFCV, quality 90", ""),
    "FFCV jpg400": (LOSSY, "FFCV, at most 400 px, quality 90", "no antialiasing"),
}
# The row of rates.py: the same.
OURS = {
    "first-epoch": (PLAIN, "penstock, first epoch", ""),
    "entry-points": (PLAIN, "penstock, later epochs", ""),
    "packed": (LOSSLESS, "penstock, packed", "the same pixels"),
    "packed-400": (LOSSY, "penstock, packed to 400 px, quality 90", "antialiased"),
}
TABLE_LINE = re.compile(r"^(\S.*?) {2,}([\d,.]+) +([\d.]+)$")


# ---- regions


def marks(name):
    return f"<!-- measured: {name} -->", "<!-- /measured -->"


def region(text, name):
    """(before and with the opening mark, within, from the closing mark on); ValueError if the page has no such region, or two."""
    begin, end = marks(name)
    if text.count(begin) != 1:
        raise ValueError(f"expected one region '{begin}', found {text.count(begin)}")
    head, rest = text.split(begin)
    if end not in rest or "<!-- measured:" in rest.split(end)[0]:
        raise ValueError(f"the region '{begin}' has no end '{end}'")
    within, tail = rest.split(end, 1)
    return head + begin, within, end + tail


def sections(within):
    """{key: text} of a region's sections, in order."""
    parts = re.split(r"<!-- machine: (.+?) -->", within)
    if parts[0].strip():
        raise ValueError(f"text before the first machine: {parts[0].strip()[:60]!r}")
    return {key: text.strip() for key, text in zip(parts[1::2], parts[2::2])}


def with_section(text, name, key, section):
    head, within, tail = region(text, name)
    found = sections(within)
    if key in found:
        found[key] = section
    else:
        found = {key: section, **found}
    body = "\n\n".join(f"<!-- machine: {one} -->\n\n{words}" for one, words in found.items())
    return f"{head}\n\n{body}\n\n{tail}"


def with_text(text, name, words):
    head, _, tail = region(text, name)
    return f"{head}\n{words}\n{tail}"


def wrapped(text):
    """Prose at WIDTH columns; tables and code as they are."""
    lines, code = [], False
    for line in text.strip().split("\n"):
        code ^= line.startswith("```")
        if code or line.startswith(("|", "```")) or len(line) <= WIDTH:
            lines.append(line.rstrip())
        else:
            lines += textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


# ---- a result: the object that scripts/measure keeps in BUILD/measured/NAME.json


def machine_words(machine):
    return (f"{machine['cores']} cores, {machine['vectors']}, kernel {machine['kernel']}, {machine['memory_gib']} GiB of memory, "
            f"{machine['load']}")


def section_of(result):
    machine = result["machine"]
    opening = f"**{machine['model']}**: {machine_words(machine)}; commit `{result['commit']}`, {result['date']}."
    if result["heading"]:
        opening = f"## {machine['key']}\n\n{opening}"
    return wrapped(f"{opening}\n\n```text\n{result['command']}\n```\n\n{result['text'].strip()}")


def page_with(text, result):
    return with_section(text, result["region"], result["machine"]["key"], section_of(result))


def run_words(result):
    machine = result["machine"]
    return f"{machine['model']}, {machine['cores']} cores, {machine['vectors']}, {result['date']}, commit {result['commit']}"


# ---- speed.csv, and what follows from it


def peer_rates(text):
    """[(name, images_per_s, ratio)] and the names of those that failed, from what a command printed: JSON objects, one a line, with name
    and images_per_s, where those of a name that begins with libjpeg-turbo are the yardstick of what follows; or lines of a table,
    NAME  RATE  RATIO."""
    found, failed, yardstick = [], [], None
    for line in text.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            if entry["name"].startswith("libjpeg-turbo"):
                yardstick = entry["images_per_s"]
            elif entry.get("failed"):
                failed.append(entry["name"])
            elif "ratio" in entry or yardstick:
                found.append((entry["name"], entry["images_per_s"], entry.get("ratio") or entry["images_per_s"] / yardstick))
            else:
                raise ValueError(f"{entry['name']}: no ratio, and no line of libjpeg-turbo before it")
        elif match := TABLE_LINE.match(line.strip()):
            found.append((match[1], float(match[2].replace(",", "")), float(match[3])))
        elif " failed" in line:
            failed.append(line.split("  ")[0].strip())
    return found, failed


def spread(values):
    return {"median": f"{statistics.median(values):.2f}", "least": f"{min(values):.2f}", "most": f"{max(values):.2f}"}


def speed_rows(old, ratios, run):
    """The chart's rows: `ratios` is {(group, loader, note): ratios of the rounds}; of loaders that it lacks, the old rows."""
    new = {place[:2]: {"group": place[0], "loader": place[1], "note": place[2], "run": run, **spread(values)}
           for place, values in ratios.items()}
    kept = {(row["group"], row["loader"]): row for row in old}
    order = [place[:2] for place in (*PEERS.values(), *OURS.values())]
    every = [*order, *(place for place in (*kept, *new) if place not in order)]
    rows = [new.get(place) or kept[place] for place in dict.fromkeys(every) if place in new or place in kept]
    groups = list(dict.fromkeys([PLAIN, LOSSLESS, LOSSY, *(row["group"] for row in rows)]))
    return sorted(rows, key=lambda row: groups.index(row["group"]))


def ratios_of(result):
    """Of a result of the part speed."""
    found = {}
    for figure in result["figures"]["rates"]["rows"]:
        if figure["row"] in OURS and figure["kernels"] == "chosen":
            found[OURS[figure["row"]]] = figure["ratios"]
    for round_ in result["figures"]["peers"]:
        for name, _, ratio in round_["rates"]:
            if name in PEERS:
                found.setdefault(PEERS[name], []).append(ratio)
    return found


def csv_text(rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def middle(rows, loader):
    row = next((row for row in rows if row["loader"] == loader), None)
    return float(row["median"] or row["most"]) if row else None


def one_sentence(rows):
    """README's sentence; None while a figure is missing."""
    peer, first, later = (middle(rows, name) for name in ("torchvision v2, DataLoader", "penstock, first epoch", "penstock, later epochs"))
    if not (peer and first and later):
        return None
    return textwrap.fill(f"On the same cores it makes {first / peer:.1f} times as many images per second as PyTorch's DataLoader with "
                         f"torchvision v2 in the first epoch, and {later / peer:.1f} times as many later.¹", WIDTH)


def footnote(rows, result):
    runs = list(dict.fromkeys(row["run"] for row in rows))
    where = f"All were measured in one run ({runs[0]})." if len(runs) == 1 else \
        "The bars come from different runs, whose machines and commits that page names, so compare the ratios, not images per second."
    words = (f"<sub>¹ {result['images']} images, RandomResizedCrop to 224 and a flip, batch 64, uint8, page cache warm. Each bar is the rate "
             "divided by the rate at which libjpeg-turbo decodes the same files in full on the same cores in the same round. "
             f"The first epoch makes entry points, which later epochs use. [All figures](docs/evidence/peers.md). {where}</sub>")
    return textwrap.fill(words, WIDTH, break_long_words=False, break_on_hyphens=False)


def speed_text(rows, result):
    """The table of this run for docs/evidence/peers.md, and which loaders failed."""
    run = run_words(result)
    lines = ["| loader | of full decode | least to most | |", "|---|---|---|---|"]
    for row in rows:
        if row["run"] == run:
            name = f"**{row['loader']}**" if row["loader"].startswith("penstock") else row["loader"]
            note = row["note"] if row["group"] == PLAIN else f"{row['group'].lower()}{'; ' if row['note'] else ''}{row['note']}"
            lines.append(f"| {name} | {row['median']} | {row['least']} to {row['most']} | {note} |")
    failed = sorted({name for round_ in result["figures"]["peers"] for name in round_["failed"]})
    return "\n".join(lines) + (f"\n\nThese failed, and have no row of this run: {', '.join(failed)}." if failed else "")


def shown(result):
    """A result's section as it would be written, for a run that writes nothing."""
    if result["region"] == "speed":
        result = {**result, "text": speed_text(speed_rows([], ratios_of(result), run_words(result)), result)}
    return section_of(result)


def write_speed(root, result):
    """speed.csv, the chart, README's regions; returns the text for the region on the page."""
    table = root / SPEED
    with table.open(newline="", encoding="utf-8") as file:
        old = list(csv.DictReader(file))
    rows = speed_rows(old, ratios_of(result), run_words(result))
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    sentence = one_sentence(rows)
    if sentence:
        text = with_text(text, "speed", sentence)
    text = with_text(text, "footnote", footnote(rows, result))
    readme.write_text(text, encoding="utf-8")
    table.write_text(csv_text(rows), encoding="utf-8")
    (root / "docs/pictures/speed.svg").write_text(chart.draw(rows), encoding="utf-8")
    return speed_text(rows, result)


def write(root, result):
    """Writes a result into its page; returns the names of the files that it concerns."""
    root = Path(root)
    page = root / result["page"]
    region(page.read_text(encoding="utf-8"), result["region"])  # a damaged page is found before anything is written
    if result["region"] == "speed":
        result = {**result, "text": write_speed(root, result)}
    text = page_with(page.read_text(encoding="utf-8"), result)
    page.write_text(text, encoding="utf-8")
    return [result["page"]] + ([SPEED, "docs/pictures/speed.svg", "README.md"] if result["region"] == "speed" else [])
