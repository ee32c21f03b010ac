"""A strict reader of OpenMetrics 1.0 and of Prometheus' text format 0.0.4: whatever the formats forbid is an error that says so.

Written from the two formats' texts; standard library only. As a program it reads standard input, and says what is wrong with it."""
import math
import re
import sys
from types import SimpleNamespace

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]Inf|NaN")
# What each type's samples are called, after the family's name.
SUFFIXES = {"counter": ("_total", "_created"), "gauge": ("",), "info": ("_info",), "stateset": ("",), "unknown": ("",),
            "histogram": ("_bucket", "_count", "_sum", "_created"), "summary": ("", "_count", "_sum", "_created")}
OLD_TYPES = ("counter", "gauge", "histogram", "summary", "untyped")


class Wrong(Exception):
    pass


def labels_of(text, where):
    labels, at = {}, 0
    while text and at < len(text):
        match = LABEL.match(text, at)
        if not match:
            raise Wrong(f"{where}: no label at {text[at:at + 30]!r}")
        if match[1] in labels:
            raise Wrong(f"{where}: the label {match[1]} stands there twice")
        labels[match[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[2])
        at = match.end()
        if at < len(text):
            if text[at] != "," or at + 1 == len(text):
                raise Wrong(f"{where}: expected a comma and a label behind {match[0]!r}")
            at += 1
    return labels


def check_histogram(family, samples):
    groups = {}
    for sample in samples:
        key = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        groups.setdefault(key, []).append(sample)
    for group in groups.values():
        buckets = [s for s in group if s.name.endswith("_bucket")]
        bounds = [float(s.labels["le"]) for s in buckets]
        counts = [s.value for s in buckets]
        if not buckets or bounds != sorted(set(bounds)) or bounds[-1] != math.inf:
            raise Wrong(f"{family}: bounds must grow and end with +Inf: {bounds}")
        if counts != sorted(counts):
            raise Wrong(f"{family}: buckets are cumulative: {counts}")
        rest = {s.name.rsplit("_", 1)[1]: s.value for s in group if not s.name.endswith("_bucket")}
        if rest.get("count") != counts[-1] or "sum" not in rest:
            raise Wrong(f"{family}: _count must be the +Inf bucket's, and _sum be there")


def check_family(family):
    suffixes = SUFFIXES[family.type]
    seen = set()
    for s in family.samples:
        key = (s.name, tuple(sorted(s.labels.items())))
        if key in seen:
            raise Wrong(f"{s.name}{s.labels} stands there twice")
        seen.add(key)
        if s.name not in [family.name + suffix for suffix in suffixes]:
            raise Wrong(f"{s.name} is no sample of the {family.type} {family.name}")
        if family.type in ("counter", "histogram", "summary") and not (s.value >= 0):
            raise Wrong(f"{s.name}: {s.value} is below 0")
        if family.type in ("info", "stateset") and s.value not in (0, 1):
            raise Wrong(f"{s.name}: an {family.type} is 0 or 1")
        if family.type == "stateset" and family.name not in s.labels:
            raise Wrong(f"{s.name}: a stateset has its state in the label {family.name}")
    if family.unit and not family.name.endswith("_" + family.unit):
        raise Wrong(f"{family.name} does not end in its unit {family.unit}")
    if family.type == "histogram" and family.samples:
        check_histogram(family.name, family.samples)


def read(text, old=False):
    """The families by name, each with type, unit, help, samples (name, labels, value). Raises Wrong. `old`: the format 0.0.4."""
    families, current = {}, None
    if not text.endswith("\n"):
        raise Wrong("the last line has no end")
    lines = text[:-1].split("\n")
    if not old:
        if lines.pop() != "# EOF":
            raise Wrong("the last line is not # EOF")
    for number, line in enumerate(lines, 1):
        where = f"line {number}"
        if line.startswith("#"):
            match = re.fullmatch(rf"# (TYPE|HELP|UNIT) ({NAME})(?: (.*))?", line)
            if not match or (old and match[1] == "UNIT"):
                raise Wrong(f"{where}: {line!r} is no descriptor of this format")
            kind, name, rest = match[1].lower(), match[2], match[3] or ""
            if current is None or current.name != name:
                if name in families:
                    raise Wrong(f"{where}: the family {name} is there already")
                current = families[name] = SimpleNamespace(name=name, type=None, unit=None, help=None, samples=[])
            if getattr(current, kind) is not None or current.samples:
                raise Wrong(f"{where}: {kind} of {name} comes twice, or behind its samples")
            setattr(current, kind, rest)
            if kind == "type" and rest not in (OLD_TYPES if old else SUFFIXES):
                raise Wrong(f"{where}: {rest} is no type")
            continue
        match = SAMPLE.fullmatch(line)
        if not match or not NUMBER.fullmatch(match[3]):
            raise Wrong(f"{where}: {line!r} is no sample")
        if current is None or not match[1].startswith(current.name):
            raise Wrong(f"{where}: {match[1]} stands outside its family")
        current.samples.append(SimpleNamespace(name=match[1], labels=labels_of(match[2], where), value=float(match[3])))
    for family in families.values():
        if family.type is None or family.help is None:
            raise Wrong(f"{family.name} has no TYPE or no HELP")
        if old:
            # There a counter's family is called like its samples.
            family.type = {"untyped": "unknown", "counter": "gauge"}.get(family.type, family.type)
        check_family(family)
    return families


def values(families):
    """Every sample by (name, labels)."""
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families.values() for s in f.samples}


GOOD = ("# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes How many.\na_bytes_total{x=\"1\\\"\\\\\\n\"} 1\n"
        "# TYPE h histogram\n# HELP h Times.\nh_bucket{le=\"0.1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_count 2\nh_sum 1.5\n# EOF\n")
# Each must be refused: the checker itself is checked before it judges.
BAD = (GOOD[:-1], GOOD.replace("# EOF\n", ""), GOOD.replace("a_bytes_total", "a_bytes"), GOOD.replace("} 1\n", "} -1\n", 1),
       GOOD.replace("x=", "x= "), GOOD.replace('x="1', 'x="1",x="1'), GOOD.replace("UNIT a_bytes bytes", "UNIT a_bytes seconds"),
       GOOD.replace('"+Inf"} 2', '"+Inf"} 0'), GOOD.replace("h_count 2", "h_count 3"), GOOD.replace("h_sum 1.5\n", ""),
       GOOD.replace("# HELP h Times.\n", ""), GOOD.replace('0.1"} 1\n', '0.1"} 1\nh_bucket{le="0.1"} 1\n'), GOOD.replace("1.5", "x"),
       GOOD.replace("# TYPE h", "a_bytes_total 2\n# TYPE a_bytes counter\n# TYPE h"), GOOD.replace("\n# EOF", "\n\n# EOF"),
       GOOD.replace("counter", "counted"), GOOD.replace("h_sum", "g_sum"))


def check_checker():
    read(GOOD)
    for bad in BAD:
        try:
            read(bad)
        except Wrong:
            continue
        raise AssertionError(f"the checker takes {bad!r}")


if __name__ == "__main__":
    check_checker()
    try:
        print(f"{len(read(sys.stdin.read()))} families, all good")
    except Wrong as wrong:
        sys.exit(f"openmetrics: {wrong}")
