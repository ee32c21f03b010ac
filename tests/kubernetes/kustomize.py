"""config/kubernetes as Kustomize builds it, and its parts. Without Kustomize, only the files themselves."""
import copy
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "config/kubernetes"
VARIANTS = ("sidecar", "daemonset")
COMPONENTS = ("metrics", "web-identity")


def program():
    """What builds: `kustomize build` or `kubectl kustomize`; None: neither is installed."""
    for command in (("kustomize", "build"), ("kubectl", "kustomize")):
        if shutil.which(command[0]):
            return command
    return None


def build(variant, components=()):
    """The objects of a variant with these components, for the caller to change."""
    return copy.deepcopy(built(variant, tuple(components)))


@functools.lru_cache(maxsize=None)
def built(variant, components):
    with tempfile.TemporaryDirectory() as folder:
        # Kustomize takes only files below the folder that it begins in, or that one names by a relative path.
        shutil.copytree(FOLDER, Path(folder) / "kubernetes")
        chosen = Path(folder) / "kubernetes/chosen"
        chosen.mkdir()
        lines = ["apiVersion: kustomize.config.k8s.io/v1beta1", "kind: Kustomization", f"resources: [../{variant}]",
                 f"components: [{', '.join('../' + name for name in components)}]"]
        (chosen / "kustomization.yaml").write_text("\n".join(lines) + "\n", encoding="ascii")
        done = subprocess.run([*program(), str(chosen)], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and not done.stderr.strip(), f"{variant} with {components}: {done.stderr}"
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def files():
    """The objects of the files, without what Kustomize does to them."""
    for path in sorted(FOLDER.glob("*/*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            whole = path.parent.name not in COMPONENTS or path.name == "network-policy.yaml"
            if whole and "kind" in document and "kustomize" not in document["apiVersion"]:
                yield document


def one(objects, kind, name=None):
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} objects are of the kind {kind}"
    return found[0]


def workloads(objects):
    return [o for o in objects if o["kind"] in ("Job", "DaemonSet")]


def containers(workload):
    spec = workload["spec"]["template"]["spec"]
    return spec.get("initContainers", []) + spec["containers"]


def container(workload, name):
    return next((c for c in containers(workload) if c["name"] == name), None)
