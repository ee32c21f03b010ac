"""The pages of the documentation: which there are, their links and headings, and the tree that the site is built from.

    pages.py stage FOLDER     writes that tree into FOLDER

Pages are the Markdown files of docs/, and those that SOURCES makes of other files of the repository: a
link to such a file leads to its page on the site. Other files of the repository that a page links to
are copied to the site. Only the standard library; tests/docs/pages.py checks with this what scripts/docs
builds."""
import os
import re
import shutil
import sys
import unicodedata
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^\s*(```+|~~~+)")
LINK = re.compile(r"(?<=\])\(([^()\s]+)\)|(?<=src=\")([^\"]+)(?=\")|(?<=href=\")([^\"]+)(?=\")")


def sources():
    """Files outside docs/*.md that have a page on the site: their path, and their page's."""
    found = {
        "CONTRIBUTING.md": "project/contributing.md",
        "SECURITY.md": "project/security.md",
        "tests/gpu/README.md": "project/gpu-tests.md",
        "proto/PROTOCOL.md": "reference/protocol.md",
        "include/penstock/penstock.h": "reference/c.md",
        "include/penstock/cuda.h": "reference/c-cuda.md",
    }
    for page in sorted((ROOT / "docs/man").glob("*.scd")):
        name, section = page.name.removesuffix(".scd").rsplit(".", 1)
        folder = "reference/command-line" if section == "1" else "reference"
        found[f"docs/man/{page.name}"] = f"{folder}/{name.replace('.', '-')}.md"
    return found


def pages():
    """Path in the repository of each page, and its path on the site."""
    found = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT / "docs").as_posix()
        if not name.startswith(("make/", "man/")):
            found[f"docs/{name}"] = name
    return {**found, **sources()}


def masked(text):
    """The text with its code blanked out, so that what is left is prose and links. Columns and lines stay."""
    out, fence = [], None
    for line in text.split("\n"):
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence):
                fence = None
            line = " " * len(line)
        elif found:
            fence = found[1]
            line = " " * len(line)
        else:
            line = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda code: " " * len(code[0]), line)
        out.append(line)
    return re.sub(r"<!--.*?-->", lambda comment: re.sub(r"[^\n]", " ", comment[0]), "\n".join(out), flags=re.DOTALL)


def links(text):
    """(start, end, target) of each link and image."""
    for found in LINK.finditer(masked(text)):
        group = found.lastindex
        yield found.start(group), found.end(group), found[group]


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    words = "".join(c for c in words if c.isalnum() or c in " -_")
    return words.replace(" ", "-")


def site_slug(heading):
    """The anchor as the site makes it (Python-Markdown)."""
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    words = unicodedata.normalize("NFKD", re.sub(r"\\(.)", r"\1", words).replace("`", "")).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())


def anchors(text, make=slug):
    """Every anchor of a page."""
    found, fence = {}, None
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = None
        elif not fence and (heading := re.match(r"#{1,6} +(.*?) *#*$", line)):
            name = make(heading[1])
            count = found.get(name, -1) + 1
            found[name] = count
            if count:
                found[f"{name}-{count}" if make is slug else f"{name}_{count}"] = 0
    return set(found)


def navigation():
    """The pages that mkdocs.yml's navigation has, in its order."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = re.search(r"^nav:\n((?:[ \t].*\n|\n)+)", text, re.MULTILINE)
    return re.findall(r"[\w/.-]+\.md(?=\s*$)", nav[1], re.MULTILINE)


def content(path):
    """The Markdown of a page by its path in the repository, before its links are changed."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".scd"):
        return reference.man_page(text, man_link)
    if path.endswith(".h"):
        return reference.header_page(text, Path(path).name)
    return text


def man_link(name, section):
    """The link of a generated page to another one; by the source's path, as all pages name it."""
    path = f"docs/man/{name}.{section}.scd"
    shown = f"`{name}`({section})"
    return f"[{shown}](/{path})" if (ROOT / path).exists() else shown


def resolve(target, page):
    """The path in the repository that a link of a page leads to, and its anchor. None for what is on the web."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    path, _, anchor = target.partition("#")
    if not path:
        return page, anchor
    base = "" if path.startswith("/") else os.path.dirname(page)
    return os.path.normpath(os.path.join(base, path.lstrip("/"))), anchor


def relink(text, page, place, where, copied):
    """The text with its links changed for the site. `place`: the page's path there; `where`: that of all pages."""
    out, end = [], 0
    for start, stop, target in list(links(text)):
        found = resolve(target, page)
        if not found or not target.partition("#")[0]:
            continue
        path, anchor = found
        there = where.get(path)
        if not there and path.startswith("docs/"):
            there = path.removeprefix("docs/")
        if not there:
            there = f"files/{path}"
            copied.add(path)
        relative = os.path.relpath(there, os.path.dirname(place) or ".")
        out += [text[end:start], relative + ("#" + anchor if anchor else "")]
        end = stop
    return "".join(out) + text[end:]


def stage(folder):
    """Writes the tree that MkDocs builds the site from."""
    where, copied = pages(), set()
    shutil.rmtree(folder, ignore_errors=True)
    for page, place in where.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(relink(content(page), page, place, where, copied), encoding="utf-8")
    for path in sorted((ROOT / "docs").rglob("*")):
        name = path.relative_to(ROOT / "docs").as_posix()
        if path.is_file() and not name.startswith(("make/", "man/")) and path.suffix in (".png", ".svg", ".css"):
            copied.add(f"docs/{name}")
    for path in sorted(copied):
        target = folder / (path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "stage":
        sys.exit(__doc__)
    stage(Path(sys.argv[2]))
