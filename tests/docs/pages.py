#!/usr/bin/env python3
"""Checks the documentation: links, anchors, the navigation, and how wide prose is.

    pages.py        one line for each fault, by file and line; exits with 1 when there is one

- A relative link of any Markdown file of the repository leads to a file that exists, and its anchor to a
  heading. On the site, links to folders lead nowhere, so that pages of docs/ have none.
- A path of the repository that is written as code exists: `daemon/stream/row.c`, `tests/model`; in
  docs/design also from daemon/ on: `stream/row.c`.
- README has at most 120 lines.
- Each page of the site is in the navigation of mkdocs.yml, and each page there exists.
- Prose in README, docs/ and the manual pages wraps at 100 columns. Tables, code, headings and links do
  not count.

Only the standard library: it runs where MkDocs is not installed."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/make"))
import pages  # noqa: E402

WIDTH, README_LINES = 100, 120


def markdown_files():
    """Every Markdown file that git knows, or that would be added; without git, those outside build/."""
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "--", "*.md"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    names = listed.stdout.split() if listed.returncode == 0 else [
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.md")
        if path.relative_to(ROOT).parts[0] not in ("build", ".venv", ".git")]
    return sorted(name for name in names if (ROOT / name).exists())


def check_links(names, site):
    for name in names:
        text = pages.content(name)
        for start, _, target in pages.links(text):
            found = pages.resolve(target, name)
            if not found:
                continue
            path, anchor = found
            line = text.count("\n", 0, start) + 1
            where = f"{name}:{line}"
            if path.startswith("..") or not (ROOT / path).exists():
                yield f"{where}: {target}: there is no {path}"
            elif (ROOT / path).is_dir() and name in site:
                yield f"{where}: {target}: a folder; the site can show files only"
            elif path.endswith(".md") and name in site and path not in site:
                yield f"{where}: {target}: not a page of the site (docs/make/pages.py lists them)"
            elif anchor and (path.endswith(".md") or path in site):
                made = pages.content(path)
                if anchor not in pages.anchors(made):
                    yield f"{where}: {target}: {path} has no heading of that name"
                elif name in site and anchor not in pages.anchors(made, pages.site_slug):
                    yield f"{where}: {target}: the site names that heading in another way: use plainer words in it"


def _exists(path):
    """A path, in which [ch] and * may stand for several. Some are made by the build or by a run."""
    pattern = re.sub(r"(NAME|MODULE).*", "*", path.rstrip("/"))
    if pattern.startswith("build/"):
        return True
    return next(ROOT.glob(pattern), None) is not None


def check_paths(names):
    tops = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")} - {"build"}
    stages = {path.name for path in (ROOT / "daemon").iterdir() if path.is_dir()}
    for name in names:
        if not name.endswith(".md"):
            continue
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").split("\n"), 1):
            for path in re.findall(r"`([a-z_]+(?:/[\w.*\[\]-]+)+/?)`", line):
                top = path.split("/")[0]
                bases = [""] if top in tops else ["daemon/"] if top in stages and name.startswith("docs/design/") else []
                if bases and not any(_exists(base + path) for base in bases):
                    yield f"{name}:{number}: {path} does not exist"


def check_navigation(site):
    named = pages.navigation()
    there = set(site.values())
    for page in sorted(there - set(named)):
        yield f"mkdocs.yml: {page} is not in the navigation"
    for page in sorted(set(named) - there):
        yield f"mkdocs.yml: {page} does not exist"
    for page in sorted({page for page in named if named.count(page) > 1}):
        yield f"mkdocs.yml: {page} is in the navigation twice"


def _shown(line):
    """The line without what may be long: addresses of links, and a link that is the whole of an item."""
    line = re.sub(r"^( *- )\[.*\]\([^)]*\)$", r"\1", line)
    line = re.sub(r"\]\([^)]*\)", "]", line)
    return re.sub(r"<?https?://\S+", "", line)


def check_markdown_width(name, text):
    code, item = None, 0
    comment = False
    for number, line in enumerate(text.split("\n"), 1):
        fence = pages.FENCE.match(line)
        if code:
            code = None if fence and fence[1].startswith(code) else code
            continue
        if fence:
            code = fence[1]
            continue
        stripped = line.lstrip()
        indent = len(line) - len(stripped)
        found = re.match(r"([-*+]|\d+\.) +", stripped)
        if found and indent < item + 4:
            item = indent + len(found[0])
        elif stripped and indent == 0:
            item = 0
        if stripped.startswith(("|", "#")) or indent >= item + 4 or comment or stripped.startswith("<"):
            comment = ("<!--" in line or comment) and "-->" not in line
            continue
        if len(_shown(line)) > WIDTH:
            yield f"{name}:{number}: {len(_shown(line))} columns; prose wraps at {WIDTH}"


def check_manual_width(name, text):
    code = False
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.strip() == "```":
            code = not code
            continue
        # The term of a definition is one line, however long; an indented block below a blank line is an example.
        term = number < len(lines) and lines[number].startswith("\t") and not line.startswith("\t") and line.strip()
        example = line.startswith("\t") and not lines[number - 2].strip()
        if code or term or example or line.startswith(("[", "|", ":", "]")):
            continue
        if len(_shown(line)) > WIDTH:
            yield f"{name}:{number}: {len(line)} columns; prose wraps at {WIDTH}"


def check_length():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").count("\n")
    if lines > README_LINES:
        yield f"README.md: {lines} lines, of at most {README_LINES}: what a visitor does not need first goes to docs/"


def check_width(names):
    for name in names:
        if name == "README.md" or name.startswith("docs/"):
            yield from check_markdown_width(name, (ROOT / name).read_text(encoding="utf-8"))
    for path in sorted((ROOT / "docs/man").glob("*.scd")):
        yield from check_manual_width(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def main():
    names, site = markdown_files(), pages.pages()
    missing = [name for name in site if not (ROOT / name).exists()]
    if missing:
        sys.exit(f"docs/make/pages.py names {missing[0]}, which does not exist")
    every = [*names, *(name for name in site if name not in names)]
    wrong = [*check_links(every, site), *check_paths(names), *check_navigation(site), *check_width(names),
             *check_length()]
    print("\n".join(wrong) or f"{len(every)} files, {len(site)} pages: every link leads somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
