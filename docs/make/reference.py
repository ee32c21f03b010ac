"""Makes the generated pages of the reference: Markdown from a manual page (scdoc) or from a public C header.

man_page(text, link) and header_page(text, name) return Markdown. Only the standard library.

Each fact has one source. The command line and penstock.yaml are described in docs/man/*.scd, the C
interface in include/penstock/*.h. These pages are made from them when the site is built, and are not
kept in the repository."""
import re
import textwrap

# Manual pages ----------------------------------------------------------------------------------

_SEE = re.compile(r"\*([a-z][a-z.-]*)\*\(([1-8])\)")
_STRONG = re.compile(r"\*((?:\\.|[^*\\])+)\*")
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9])_((?:\\.|[^\\])+?)_(?![A-Za-z0-9])")


def _escape(text):
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text)


def _plain(text):
    """The text without scdoc's marks and escapes."""
    text = _SEE.sub(r"\1(\2)", text)
    text = _STRONG.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\1", text)
    return re.sub(r"\\(.)", r"\1", text)


def _inline(text, link):
    """A line of scdoc as Markdown: *strong* becomes code, _emphasis_ stays emphasis."""
    out, i = [], 0
    while i < len(text):
        for pattern in (_SEE, _STRONG, _EMPHASIS):
            found = pattern.match(text, i)
            if found:
                break
        if found and pattern is _SEE:
            out.append(link(found[1], found[2]))
        elif found and pattern is _STRONG:
            out.append("`" + re.sub(r"\\(.)", r"\1", found[1]) + "`")
        elif found:
            out.append("*" + _escape(_plain(found[1])) + "*")
        elif text[i] == "\\" and i + 1 < len(text):
            out.append(_escape(text[i + 1]))
            i += 2
            continue
        else:
            out.append(_escape(text[i]))
            i += 1
            continue
        i = found.end()
    return "".join(out)


def _blocks(lines):
    """The page cut at blank lines, literal blocks kept whole: lists of lines."""
    block, literal = [], False
    for line in lines:
        fence = line.strip() == "```"
        if not literal and (not line.strip() or fence):
            if block:
                yield block
            block = [line] if fence else []
        else:
            block.append(line)
        if fence:
            literal = not literal
            if not literal:
                yield block
                block = []
    if block:
        yield block


def _depth(line):
    return len(line) - len(line.lstrip("\t"))


def _paragraph(lines, link):
    text = []
    for line in (line.strip() for line in lines):
        # A line that ends with ++ breaks there.
        text.append(line.removesuffix("++").rstrip() + ("\n" if line.endswith("++") else " "))
    return "  \n".join(_inline(part.strip(), link) for part in "".join(text).strip().split("\n"))


def _table(lines, link):
    rows = []
    for line in (line.strip() for line in lines):
        if line[0] in "[|]":
            rows.append([])
        cell = re.sub(r"^[\[|\]:][-<>=\]]?\s*", "", line)
        rows[-1] += [_inline(part, link) for part in re.split(r"\s+:[-<>]?\s+", cell)]
    head, *rest = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *rest])


def _items(lines, link):
    items = []
    for line in (line.strip() for line in lines):
        if line[:2] in ("- ", ". "):
            items.append(("- " if line[0] == "-" else "1. ", [line[2:]]))
        else:
            items[-1][1].append(line)
    return "\n".join(mark + _inline(" ".join(words), link) for mark, words in items)


# Words that stay in capitals in a heading.
_NAMES = {"json": "JSON", "http": "HTTP", "cpu": "CPU", "gpu": "GPU", "yaml": "YAML", "systemd": "systemd"}


def _lower(word):
    return _NAMES.get(word.lower(), word)


def _heading(line, link):
    marks, words = line.split(" ", 1)
    words = " ".join(map(_lower, words.capitalize().split())) if words.isupper() else words
    return "#" + marks + " " + _inline(words, link)


def man_page(text, link=lambda name, section: f"`{name}`({section})"):
    """A manual page as Markdown. `link(name, section)` makes the link to another one.

    Definition lists and their bodies need the extension def_list. A block that is indented without a
    term above it is an example, and becomes code."""
    first, *lines = text.rstrip("\n").split("\n")
    out = [f"# {first.split()[0]}"]
    inside = 0  # how many definitions the current block is in
    for block in _blocks([line for line in lines if not line.startswith(";")]):
        depth = _depth(block[0])
        words = block[0].strip()

        def put(markdown, level):
            out.append(textwrap.indent(markdown, "    " * level))

        if words == "```":
            inside = min(inside, depth)
            code = [line[inside:] for line in block[1:-1]]
            put("```text\n" + "\n".join(code) + "\n```", inside)
        elif block[0].startswith("#"):
            inside = 0
            out.append(_heading(block[0], link))
            if len(block) > 1:
                out.append(_paragraph(block[1:], link))
        elif depth > inside:
            code = "\n".join(_plain(line[depth:].rstrip().removesuffix("++").rstrip()) for line in block)
            put("```text\n" + code + "\n```", inside)
        elif re.match(r"[\[|][-<>=\]]", words):
            inside = depth
            put(_table(block, link), depth)
        elif words[:2] in ("- ", ". "):
            inside = depth
            put(_items(block, link), depth)
        else:
            body = next((i for i, line in enumerate(block) if _depth(line) > depth), None)
            inside = depth
            put(_paragraph(block[:body], link), depth)
            if body is not None:
                definition = block[body:]
                end = next((i for i, line in enumerate(definition) if line.strip()[:2] in ("- ", ". ")), len(definition))
                made = _paragraph(definition[:end], link) if end else ""
                if end < len(definition):
                    made += ("\n\n" if made else "") + _items(definition[end:], link)
                made = textwrap.indent(made, "    ")
                out[-1] += "\n" + textwrap.indent(":   " + made[4:], "    " * depth)
                inside = depth + 1
    return "\n\n".join(out) + "\n"


# Headers ---------------------------------------------------------------------------------------

_SKIP = re.compile(r'#\s*(ifndef|ifdef|if|endif|include|pragma|define PENSTOCK_(PENSTOCK_H|CUDA_H|API))\b|extern "C"|\}\s*$')


def _comment(lines):
    """The text of a block comment, without its marks."""
    text = "\n".join(lines).strip()
    text = text.removeprefix("/**").removeprefix("/*").removesuffix("*/")
    return "\n".join(re.sub(r"^\s*\* ?", "", line).rstrip() for line in text.strip().split("\n"))


def _prose(text, level):
    """A comment as Markdown: a line underlined with dashes is a heading, what is indented is code."""
    out = []
    for block in re.split(r"\n[ \t]*\n", text):
        lines = block.split("\n")
        if len(lines) > 1 and set(lines[1].strip()) == {"-"}:
            out.append("#" * level + " " + _escape(lines[0].strip()))
            lines = lines[2:]
        group = []
        for line in [*lines, None]:
            code = line is not None and line.startswith(("  ", "\t"))
            if group and (line is None or code != group[0][0]):
                words = [each for _, each in group]
                out.append("```c\n" + textwrap.dedent("\n".join(words)) + "\n```" if group[0][0]
                           else _escape("\n".join(words)))
                group = []
            if line is not None:
                group.append((code, line))
    return "\n\n".join(out)


def _depth_of(code):
    """How many braces and comments are open at the end of these lines."""
    bare = re.sub(r"/\*.*?\*/", "", "\n".join(code), flags=re.DOTALL)
    return bare.count("{") - bare.count("}") + bare.count("/*")


def _chunks(lines):
    """(comment, declaration): each declaration with the block comment that is right above it."""
    comment, code, i = [], [], 0
    while i < len(lines):
        line = lines[i]
        depth = _depth_of(code)
        if depth == 0 and not code and line.startswith("/*"):
            if comment:
                yield comment, []
            comment = [line]
            while "*/" not in lines[i]:
                i += 1
                comment.append(lines[i])
        elif depth == 0 and not line.strip():
            if comment or code:
                yield comment, code
            comment, code = [], []
        elif depth == 0 and _SKIP.match(line):
            if comment and not code:
                yield comment, []
                comment = []
        else:
            code.append(line)
        i += 1
    if comment or code:
        yield comment, code


def _name(code):
    """What a declaration declares: "struct penstock_batch", "penstock_next()", or None."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(code), flags=re.DOTALL)
    found = re.match(r"\s*((?:struct|enum) \w+)\s*[{;]", text)
    if found:
        return found[1]
    names = re.findall(r"\b(\w+)\(", text.replace("__attribute__((", ""))
    names = [name for name in names if name.startswith("penstock_")]
    if names:
        return ", ".join(dict.fromkeys(f"{name}()" for name in names))
    return None


def header_page(text, name):
    """The page of a public header."""
    out = [f"# {name}"]
    for number, (comment, code) in enumerate(_chunks(text.split("\n"))):
        said = _comment(comment) if comment else ""
        if number == 0:
            said = said.split(": ", 1)[-1]
            out.append(_prose(said[:1].upper() + said[1:], 2))
            out.append("## Declarations")
            continue
        title = _name(code)
        if title:
            out.append(f"### {_escape(title)}")
        if said:
            out.append(_prose(said, 4))
        if code:
            out.append("```c\n" + "\n".join(line.replace("PENSTOCK_API ", "") for line in code) + "\n```")
    return "\n\n".join(out) + "\n"
