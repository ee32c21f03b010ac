"""Sentences of the daemon and of libpenstock in Python's notation.

The daemon speaks to people who write YAML (`RandomResizedCrop: {size: 224}`, `labels: none`,
`--memory 4G`) and libpenstock to people who fill in a struct (`options.reconnect_ms`). A user of
the loader reads `{"RandomResizedCrop": {"size": 224}}`, `labels="none"`, `memory="4G"`, `reconnect`.
"""

from __future__ import annotations

import re
from typing import Optional, Tuple

__all__ = ["python"]

# Fields of struct penstock_options, and keys of YAML, that are arguments of another name.
_ARGUMENTS = {
    "reconnect_ms": "reconnect",
    "timeout_ms": "timeout",
    "laggard_timeout_s": "laggard_timeout",
    "daemon_memory": "memory",
    "daemon_threads": "threads",
    "image_sizes": "image_size",
    "classes": "num_classes",
    "sources": "source",
}

# Advice whose whole form changes. tests/python/test_notation.py finds each of these in C's sources.
_ADVICE = (
    (r"\boptions\.(socket|restarts)\b", r"\1="),
    (r"start penstockd with --memory (\S+)", r'pass memory="\1"'),
    (r" \(--labels none\)", ""),
    (r" \(--nested\)", ""),
    (r"\bset (missing|long): (empty|cut)\b", r'set "\1": "\2"'),
    (r"set drop_last to false", "pass drop_last=False"),
    (r"--threads (\S+), in Python threads=", "threads="),
    (r" \(num_classes in Python\)", ""),
    (r"say only: true to", 'pass labels={..., "only": True} to'),
    (r" \(libpenstock: [^)]*\)", ""),
)

_KEYS = (
    "class_order|decode|dtype|interpolation|labels|laggard|layout|nested|on_broken|pad_if_needed|share|shuffle|drop_last|"
    "weights"
)
_VALUES = (
    "all|auto|balanced|bfloat16|bicubic|bilinear|block|blocks|box|bytewise|cls|detach|exact|fail|false|fast|float16|float32|folder|"
    "hamming|json|lanczos|mark|natural|NCHW|nearest|NHWC|none|random|split|substitute|true|uint8"
)
_PAIR = re.compile(rf"(?<![\w/.-])({_KEYS}): ({_VALUES})\b")
_SIZE = re.compile(r"(?<=or )size: (?=\[)")
_TRUTH = re.compile(r"\bexpected (true|false)\b(, or nothing)?")
_FIELD = re.compile(r"(?<![\w/.-])options\.(\w+)")
_RENAMED = re.compile(r"\b(laggard_timeout_s|image_sizes)\b")
_OPTION = re.compile(r"(?<![\w-])(?<!penstockd )--(memory|threads|socket|labels)(?: (\d[\w.]*))?")
_FLOW = re.compile(r"(?:\b([A-Z]\w+): )?(\{(?=\w+: )|\[(?=[A-Z]\w+: \{|\{\w+: ))")
_SCALAR = re.compile(r'\s*("[^"]*"|[^\s,:\[\]{}](?:[^,:\[\]{}]|:(?! ))*)')
_VERBATIM = re.compile(r"-?\d[\d.]*|[A-Z]+|\.\.\.|\".*\"|%.*")


def _word(text: str) -> str:
    if text in ("true", "false"):
        return text.capitalize()
    return text if _VERBATIM.fullmatch(text) else f'"{text}"'


def _scalar(text: str, at: int) -> Tuple[str, int]:
    found = _SCALAR.match(text, at)
    if found is None:
        raise ValueError
    return found.group(1).strip(), found.end()


def _value(text: str, at: int) -> Tuple[str, int]:
    """The value of YAML's flow style that begins at `at`, in Python's notation, and its end."""
    while text[at : at + 1] == " ":
        at += 1
    if text[at : at + 1] in ("{", "["):
        return _items(text, at)
    word, at = _scalar(text, at)
    return _word(word), at


def _pair(name: str, text: str, at: int) -> Tuple[str, int]:
    value, at = _value(text, at + 2)
    return f'{name if name.isdigit() else _word(name)}: {value}', at


def _items(text: str, at: int) -> Tuple[str, int]:
    opener, items = text[at], []
    closer = "}" if opener == "{" else "]"
    at += 1
    while text[at : at + 1] != closer:
        begin = at
        item, at = _value(text, at)
        if text[at : at + 2] == ": ":
            item, at = _pair(_scalar(text, begin)[0], text, at)
            item = item if opener == "{" else f"{{{item}}}"
        items.append(item)
        if text[at : at + 1] not in (",", closer):
            raise ValueError
        at += text[at] == ","
    return opener + ", ".join(items) + closer, at + 1


def _flow(text: str, found: "re.Match[str]") -> Optional[Tuple[str, int]]:
    """The mapping or list that was found; None if it is not one, or was cut off."""
    try:
        made, end = _items(text, found.start(2))
    except (ValueError, RecursionError):
        return None
    return (f'{{"{found.group(1)}": {made}}}' if found.group(1) else made), end


def _flows(text: str) -> str:
    parts, at = [], 0
    for found in _FLOW.finditer(text):
        made = _flow(text, found) if found.start() >= at else None
        if made is not None:
            parts += [text[at : found.start()], made[0]]
            at = made[1]
    return "".join([*parts, text[at:]])


def _truth(found: "re.Match[str]") -> str:
    return f"expected {found.group(1).capitalize()}{' or None' if found.group(2) else ''}"


def _option(found: "re.Match[str]") -> str:
    value = found.group(2) or ""
    return f"{found.group(1)}=" + (f'"{value}"' if value and not value.isdigit() else value)


def python(sentence: str) -> str:
    """The sentence for a user of the loader."""
    for theirs, ours in _ADVICE:
        sentence = re.sub(theirs, ours, sentence)
    sentence = _flows(sentence)
    sentence = sentence.replace('[{"source": PATH, "weight": NUMBER}, ...]', "[(PATH, NUMBER), ...]")
    sentence = sentence.replace('{"source": PATH, "weight": NUMBER}', "(PATH, NUMBER)")
    sentence = re.sub(r"\bsources: ", "source: ", sentence)
    sentence = _PAIR.sub(lambda found: f"{found.group(1)}={_word(found.group(2))}", sentence)
    sentence = _SIZE.sub("size=", sentence)
    sentence = _TRUTH.sub(_truth, sentence)
    sentence = _FIELD.sub(lambda found: _ARGUMENTS.get(found.group(1), found.group(1)), sentence)
    sentence = _RENAMED.sub(lambda found: _ARGUMENTS[found.group(1)], sentence)
    return _OPTION.sub(_option, sentence)
