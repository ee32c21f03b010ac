"""Sentences of the daemon and of libpenstock in Python's notation, for every sentence in their
sources; and that the sentences that the package replaces are still theirs."""

from __future__ import annotations

import functools
import re
import unittest
from pathlib import Path

import support
from support import penstock

from penstock import notation

ROOT = Path(__file__).resolve().parents[2]
_LITERALS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"(?:\s|\bPRI\w+)*)+')
_PART = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\bPRI(\w+)')

_FORMAT = re.compile(r"%[-+ #.\d*]*(?:[ux]64|[ux]32|[hlzj]*[a-z])")


@functools.lru_cache(None)
def sentences() -> "dict[str, str]":
    """The literals in the sources of the daemon and of libpenstock, joined as C does, and their
    files. Programs' own options, the page and the metrics are not a loader's."""
    found = {}
    for path in sorted([*ROOT.glob("daemon/**/*.c"), *ROOT.glob("client/lib/**/*.c")]):
        if path.name in ("main.c", "config.c", "metrics.c", "renamed.c", "publish.c") or "daemon/http" in str(path):
            continue
        for literal in _LITERALS.finditer(path.read_text()):
            parts = _PART.findall(literal.group(0))
            found["".join(text or kind for text, kind in parts).replace('\\"', '"')] = path.name
    return found


class Sentences(unittest.TestCase):
    def test_flow(self) -> None:
        for theirs, ours in (
            ("as in RandomResizedCrop: {size: 224}", 'as in {"RandomResizedCrop": {"size": 224}}'),
            ("such as [RandomResizedCrop: {size: 224}, RandomHorizontalFlip]",
             'such as [{"RandomResizedCrop": {"size": 224}}, "RandomHorizontalFlip"]'),
            ("as in RandomApply: {transforms: [ColorJitter: {brightness: 0.4}]}",
             'as in {"RandomApply": {"transforms": [{"ColorJitter": {"brightness": 0.4}}]}}'),
            ("Resize: {size: [N, N]}, but", '{"Resize": {"size": [N, N]}}, but'),
            ("such as {manifest: /data/labels.csv}", 'such as {"manifest": "/data/labels.csv"}'),
            ("{size: 3, antialias: true, p: -0.5}", '{"size": 3, "antialias": True, "p": -0.5}'),
            ("RandomCrop: {padding: ...}", '{"RandomCrop": {"padding": ...}}'),
            ("as in {0: 128, 16: 192}", "as in {0: 128, 16: 192}"),
            ("sources: expected a list of {source: PATH, weight: NUMBER}", "source: expected a list of (PATH, NUMBER)"),
            ("belong to sources: [{source: PATH, weight: NUMBER}, ...]", "belong to source: [(PATH, NUMBER), ...]"),
            ("or set missing: empty for it", 'or set "missing": "empty" for it'),
            ("of the field txt, or set long: cut", 'of the field txt, or set "long": "cut"'),
            # Not YAML, and YAML that is cut off.
            ("train-{000000..000146}.tar", "train-{000000..000146}.tar"),
            ('{"version": 1, ...}', '{"version": 1, ...}'),
            ("Resize: {size: [3, 4", "Resize: {size: [3, 4"),
            ("Resize: {size: 3", "Resize: {size: 3"),
            ("Resize: {size: }", "Resize: {size: }"),
            ("[A: {" * 5000, "[A: {" * 5000),
        ):
            with self.subTest(theirs[:60]):
                self.assertEqual(notation.python(theirs), ours)

    def test_words(self) -> None:
        for theirs, ours in (
            ("or ask for labels: none", 'or ask for labels="none"'),
            ("to ignore labels, ask for labels: none (--labels none)", 'to ignore labels, ask for labels="none"'),
            ("say nested: true (--nested); torchvision's", "say nested=True; torchvision's"),
            ("class_order: natural sorts class folders", 'class_order="natural" sorts class folders'),
            ("lower batch_size, or set drop_last to false", "lower batch_size, or pass drop_last=False"),
            ("only with share: split", 'only with share="split"'),
            ("needs dtype: float32, float16", 'needs dtype="float32", float16'),
            ("come to, or pad_if_needed: true; got 3", "come to, or pad_if_needed=True; got 3"),
            ("CenterCrop after it, or size: [10, 10]", "CenterCrop after it, or size=[10, 10]"),
            ("shuffle: expected true, or nothing: samples", "shuffle: expected True or None: samples"),
            ("start penstockd with --memory 512M or more", 'pass memory="512M" or more'),
            ("labels[0] is 2, and options.classes is 2 (num_classes in Python): expected", "labels[0] is 2, and num_classes is 2: expected"),
            ("try --threads 3, in Python threads=3", "try threads=3"),
            ("raise --threads 4 or --memory 2G", 'raise threads=4 or memory="2G"'),
            ("free memory or lower --threads", "free memory or lower threads="),
            ("within the 3.0 s of options.reconnect_ms none", "within the 3.0 s of reconnect none"),
            ("raise laggard_timeout_s, or", "raise laggard_timeout, or"),
            ("as often as options.restarts allows", "as often as restarts= allows"),
            ("not yours: set options.socket to a socket in", "not yours: set socket= to a socket in"),
            ("(start one: penstockd --socket /a/b; how", "(start one: penstockd --socket /a/b; how"),
            ("labels: expected one of", "labels: expected one of"),
            ("/data/labels: none", "/data/labels: none"),
        ):
            with self.subTest(theirs):
                self.assertEqual(notation.python(theirs), ours)

    def test_every_sentence(self) -> None:
        foreign = re.compile(r"\{[A-Za-z_]+: |\[[A-Z]\w+: |(?<![\w-])--(memory|threads|labels|socket|image-size|batch-size|nested|class-order)\b|"
                             r"\boptions\.|\b[a-z_]+: (true|false|none)\b|\blaggard_timeout_s: |\braise laggard_timeout_s")
        self.assertGreater(len(sentences()), 1000)
        for sentence, file in sentences().items():
            filled = _FORMAT.sub(lambda found: "word" if found.group(0).endswith("s") else "7", sentence)
            with self.subTest(file):
                self.assertNotRegex(notation.python(filled), foreign)

    def test_what_is_replaced_is_still_said(self) -> None:
        for theirs in penstock.errors._SAID_HERE:
            with self.subTest(theirs):
                self.assertTrue(any(theirs in sentence for sentence in sentences()))
        small = "memory: 20.0 MiB is too small for 2 decoding threads: penstockd needs at least 50M; raise memory or lower threads"
        said = "memory: %s is too small for %u decoding thread%s: penstockd needs at least %lluM; raise memory or lower threads"
        self.assertRegex(f"ended at once: {small}", penstock.errors._TOO_SMALL)
        self.assertIn(said, sentences())
        for theirs, _ in notation._ADVICE:
            with self.subTest(theirs):
                said = re.compile(theirs.replace(r"(\S+)", r"%[\w.]+"))
                self.assertTrue(any(said.search(sentence) for sentence in sentences()))


if __name__ == "__main__":
    support.main()
