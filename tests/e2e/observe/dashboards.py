"""config/grafana and config/prometheus: what they ask for exists, and promtool, where there is one, finds nothing wrong with them."""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness
from harness import ROOT, Skip, run_tests

GRAFANA = ROOT / "config/grafana/penstock.json"
ALERTS = ROOT / "config/prometheus/penstock-alerts.yml"
SUFFIXES = {"counter": ["_total"], "gauge": [""], "info": ["_info"], "histogram": ["_bucket", "_count", "_sum"]}


def samples():
    """Each sample that docs/reference/metrics.md documents, which another test compares with the daemon, and its labels."""
    found = {}
    for name, kind, labels in re.findall(r"^\| `(penstock_\w+)` \| (\w+) \|([^|]*)\|", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE):
        have = {label.strip() for label in labels.split(",") if label.strip()}
        for suffix in SUFFIXES[kind]:
            found[name + suffix] = have | ({"le"} if suffix == "_bucket" else set())
    return found


def expressions(node):
    """Every query below a piece of JSON: panels' and annotations', and what variables ask."""
    if isinstance(node, dict):
        yield from (node[k] for k in ("expr", "definition") if isinstance(node.get(k), str))
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from expressions(child)


def check_query(query, known):
    """Names of metrics and of their labels; `instance` and `job` are Prometheus' own."""
    names = re.findall(r"\bpenstock_\w+", re.sub(r'"[^"]*"', "", query))
    assert names or 'up{job="penstock"}' in query, f"asks for nothing of penstock's: {query}"
    for name in names:
        assert name in known, f"no such metric: {name} in {query}"
    labels = set().union(*(known[n] for n in names)) | {"instance", "job"}
    for selector in re.findall(r"(penstock_\w+)\{([^}]*)\}", query):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', selector[1])):
            assert label in known[selector[0]] | {"instance", "job"}, f"{selector[0]} has no label {label}: {query}"
    for by in re.findall(r"\bby \(([^)]*)\)", query):
        assert {label.strip() for label in by.split(",")} <= labels, query


def promtool(*arguments, where=None):
    program = shutil.which("promtool")
    if not program:
        raise Skip("there is no promtool (Debian: in the package prometheus)")
    run = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=harness.LIMIT, cwd=where)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_dashboard_asks_for_what_there_is():
    known = samples()
    assert len(known) > 50, "docs/reference/metrics.md could not be read"
    dashboard = json.loads(GRAFANA.read_text())
    queries = list(expressions(dashboard))
    assert len(queries) > 25
    for query in queries:
        check_query(query, known)
    panels = dashboard["panels"]
    assert len({p["id"] for p in panels}) == len(panels) and all({"title", "type", "gridPos"} <= p.keys() for p in panels)
    for panel in panels:
        if panel["type"] != "row":
            place = panel["gridPos"]
            assert panel["targets"] and panel["description"] and place["x"] + place["w"] <= 24, panel["title"]
            assert len({t["refId"] for t in panel["targets"]}) == len(panel["targets"]), panel["title"]
    variables = {v["name"] for v in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(panels))) - {"__rate_interval", "__range"}
    assert used <= variables, used - variables
    kinds = " ".join(queries)
    for wanted in ("images_total", "wait_seconds", "bottleneck", "memory_reserved", "trainer_resident", "cgroup_memory", "pressure_ratio",
                   "oom_kills", "cache_hits", "broken_samples", "batch_wait_seconds_bucket", "remote_requests", "remote_first_byte_seconds_bucket",
                   "remote_cache_hit_bytes"):
        assert wanted in kinds, f"the dashboard does not show {wanted}"


def test_alerts_ask_for_what_there_is():
    known = samples()
    text = ALERTS.read_text()
    rules = re.findall(r"^ +expr: (.*)$", text, re.MULTILINE)
    names = re.findall(r"^ +- alert: (\w+)$", text, re.MULTILINE)
    assert len(rules) == len(names) == len(set(names)) >= 8
    for rule in rules:
        check_query(rule, known)
    tested = (Path(__file__).parent / "prometheus/alerts.yml").read_text()
    for name in names:
        assert tested.count(f"alertname: {name}") >= 1, f"{name} is not tried in prometheus/alerts.yml"


def test_promtool_finds_nothing():
    promtool("check", "rules", ALERTS)
    promtool("check", "config", ROOT / "config/prometheus/prometheus.yml")
    promtool("test", "rules", "alerts.yml", where=Path(__file__).parent / "prometheus")


if __name__ == "__main__":
    run_tests(globals())
