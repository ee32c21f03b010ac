"""Compares an object with the schemas of Kubernetes' API, which the package kubernetes-validate has for each version of Kubernetes.

Its own code is not used, because that needs packages that are compiled for each Python. The schemas use few words, and a word that
is not known here is an error."""
import functools
import importlib.util
import json
import re
from pathlib import Path

WORDS = {"description", "format", "default", "$schema", "$id", "type", "properties", "required", "additionalProperties", "items", "enum", "oneOf",
         "anyOf", "$ref"}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float), "null": type(None)}


def folder():
    """Where the schemas are; None: the package is not installed."""
    found = importlib.util.find_spec("kubernetes_validate")
    return Path(found.origin).parent / "kubernetes-json-schema" if found else None


@functools.lru_cache(maxsize=None)
def load(version, name):
    # Strict: fields that a schema does not name are refused.
    path = folder() / f"v{version}.0-local-strict" / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def newest():
    return max((re.fullmatch(r"v(\d+\.\d+)\.0-local-strict", path.name)[1] for path in folder().glob("v*-strict")),
               key=lambda version: tuple(map(int, version.split("."))))


def is_of(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def faults(value, schema, definitions, where):
    """What is wrong, one sentence each."""
    unknown = {word for word in schema if word not in WORDS and not word.startswith("x-")}
    assert not unknown, f"this test does not know the schema's {unknown}"
    if "$ref" in schema:
        yield from faults(value, definitions[schema["$ref"].rsplit("/", 1)[1]], definitions, where)
    for several in ("oneOf", "anyOf"):
        if several in schema and all(list(faults(value, choice, definitions, where)) for choice in schema[several]):
            yield f"{where}: {value!r} is none of what it may be"
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_of(value, name) for name in types):
        yield f"{where}: expected {' or '.join(types)}, got {value!r}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: expected one of {schema['enum']}, got {value!r}"
    if isinstance(value, dict):
        yield from (f"{where}: {name} is missing" for name in schema.get("required", []) if name not in value)
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in properties:
                yield from faults(item, properties[name], definitions, f"{where}.{name}")
            elif others is False:
                yield f"{where}: {name} is not a field"
            elif isinstance(others, dict):
                yield from faults(item, others, definitions, f"{where}.{name}")
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from faults(item, schema.get("items", {}), definitions, f"{where}[{number}]")


def check(thing, version):
    """What Kubernetes of this version would refuse in an object."""
    api = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", thing["apiVersion"])
    schema = load(version, f"{thing['kind'].lower()}-{api}.json")
    if not schema:
        return [f"Kubernetes {version} has no {thing['kind']} of {thing['apiVersion']}"]
    return list(faults(thing, schema, load(version, "_definitions.json")["$defs"], f"{thing['kind']} {thing['metadata']['name']}"))
