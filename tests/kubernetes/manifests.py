#!/usr/bin/env python3
"""config/kubernetes: built by Kustomize, compared with the schemas of Kubernetes' API, and with what penstockd needs.

    tests/kubernetes/manifests.py BUILD [CASE...]

Exit status 77: the schemas are not installed (scripts/install-deps). Without Kustomize the files themselves are compared with the
schemas, and all that needs Kustomize is skipped."""
import copy
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import kustomize
    import schema
except ImportError as absent:
    print(f"skipped: {absent} (scripts/install-deps prepares .venv-kubernetes)")
    sys.exit(77)

BUILD = Path(sys.argv[1]).resolve()
OLDEST = "1.29"  # the first version that has sidecars without a feature gate
CHOICES = [(variant, components) for variant in kustomize.VARIANTS for components in ((), ("metrics",), ("web-identity",), kustomize.COMPONENTS)]
SOCKET = "/run/penstock/socket/penstock.sock"
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    number, unit = re.fullmatch(r"(\d+)([KMG]i?)", text).groups()
    return int(number) * UNITS[unit]


def environment(container):
    return {variable["name"]: variable["value"] for variable in container.get("env", [])}


def mounts(container):
    return {mount["name"]: mount for mount in container.get("volumeMounts", [])}


@unittest.skipUnless(schema.folder(), "the schemas are not installed: scripts/install-deps prepares .venv-kubernetes")
class Schemas(unittest.TestCase):
    def accepted(self, things):
        for version in (OLDEST, schema.newest()):
            for thing in things:
                self.assertEqual(schema.check(thing, version), [], f"Kubernetes {version}")

    def test_files(self):
        found = list(kustomize.files())
        self.assertEqual(sorted(thing["kind"] for thing in found), ["DaemonSet", "Job", "Job", "NetworkPolicy", "ServiceAccount"])
        self.accepted(found)

    @unittest.skipUnless(kustomize.program(), "neither kustomize nor kubectl is installed")
    def test_built(self):
        for choice in CHOICES:
            with self.subTest(choice=choice):
                self.accepted(kustomize.build(*choice))

    def test_mistakes_are_noticed(self):
        job = kustomize.one(kustomize.files(), "Job", "train-sidecar")

        def mistake(edit):
            wrong = copy.deepcopy(job)
            edit(wrong, wrong["spec"]["template"]["spec"])
            return schema.check(wrong, OLDEST)

        for edit, words in (
                (lambda job, spec: spec.update(sharedProcessNamespace=True), "sharedProcessNamespace is not a field"),
                (lambda job, spec: spec["containers"][0].pop("name"), "name is missing"),
                (lambda job, spec: spec["securityContext"].update(runAsUser="1000"), "expected integer"),
                (lambda job, spec: spec["initContainers"][0]["startupProbe"]["exec"].update(command="penstock status"), "expected array"),
                (lambda job, spec: spec["containers"][0]["env"][0].update(value=1), "expected string"),
                (lambda job, spec: spec["volumes"][0].update(emptyDir={"size": "1Gi"}), "size is not a field"),
                (lambda job, spec: job.update(apiVersion="batch/v2"), "has no Job of batch/v2"),
                (lambda job, spec: job["spec"].pop("template"), "template is missing")):
            self.assertIn(words, " ".join(mistake(edit)))


@unittest.skipUnless(kustomize.program(), "neither kustomize nor kubectl is installed")
class Meaning(unittest.TestCase):
    """What no schema says."""

    def each(self):
        """Each workload of each choice, with the choice's objects."""
        for choice in CHOICES:
            objects = kustomize.build(*choice)
            for workload in kustomize.workloads(objects):
                with self.subTest(choice=choice, workload=workload["metadata"]["name"]):
                    yield objects, workload

    def daemons(self):
        for objects, workload in self.each():
            daemon = kustomize.container(workload, "penstockd")
            if daemon:
                yield objects, workload, daemon

    def test_nothing_is_privileged(self):
        for _, workload in self.each():
            spec = workload["spec"]["template"]["spec"]
            self.assertTrue(spec["securityContext"]["runAsNonRoot"])
            self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertIs(spec["automountServiceAccountToken"], False)
            for container in kustomize.containers(workload):
                context = container["securityContext"]
                self.assertIs(context["allowPrivilegeEscalation"], False)
                self.assertNotIn("privileged", context)
                self.assertEqual(context["capabilities"]["drop"], ["ALL"])
                # Only the container that makes the node's folders is root, and may give them away.
                folders = container["name"] == "folders"
                self.assertEqual(context.get("runAsUser"), 0 if folders else None)
                self.assertEqual(context["capabilities"].get("add"), ["CHOWN"] if folders else None)
                self.assertTrue(context.get("readOnlyRootFilesystem") or container["name"] == "trainer")

    def test_limits(self):
        for objects, _, daemon in self.daemons():
            settings = kustomize.one(objects, "ConfigMap")["data"]["penstock.yaml"]
            budget = size(re.search(r"^memory: (\S+)$", settings, re.MULTILINE)[1])
            limit = size(daemon["resources"]["limits"]["memory"])
            self.assertLessEqual(budget, limit * 3 // 4, "the page cache needs the rest")
        for _, workload in self.each():
            for container in kustomize.containers(workload):
                # Equal, so that pods have the quality of service that is evicted last.
                self.assertEqual(container["resources"]["requests"], container["resources"]["limits"], container["name"])

    def test_probes(self):
        for _, workload, daemon in self.daemons():
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.assertEqual(daemon[probe]["exec"]["command"], ["penstock", "status"])
            sidecar = workload["kind"] == "Job"
            self.assertEqual(daemon.get("restartPolicy"), "Always" if sidecar else None)
            self.assertEqual(workload["spec"]["template"]["spec"].get("shareProcessNamespace"), True if sidecar else None)

    def test_one_socket(self):
        for _, workload in self.each():
            for container in kustomize.containers(workload):
                if container["name"] == "folders":
                    continue
                self.assertEqual(environment(container)["PENSTOCK_SOCKET"], SOCKET)
                mount = mounts(container)["socket"]
                # The folder below the mount is the daemon's own.
                self.assertEqual(mount["mountPath"], str(Path(SOCKET).parents[1]))
                self.assertEqual(mount.get("readOnly", False), container["name"] != "penstockd")

    def test_mounts_have_volumes(self):
        for objects, workload in self.each():
            volumes = {volume["name"]: volume for volume in workload["spec"]["template"]["spec"]["volumes"]}
            named = {name for container in kustomize.containers(workload) for name in mounts(container)}
            self.assertEqual(named, set(volumes))
            if "config" in volumes:
                # With the hash that Kustomize adds.
                self.assertEqual(volumes["config"]["configMap"]["name"], kustomize.one(objects, "ConfigMap")["metadata"]["name"])

    def test_the_daemon_takes_its_settings(self):
        for objects, workload, daemon in self.daemons():
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "penstock.yaml"
                path.write_text(kustomize.one(objects, "ConfigMap")["data"]["penstock.yaml"], encoding="utf-8")
                words = [word.replace("/etc/penstock/penstock.yaml", str(path)) for word in daemon["args"]]
                self.assertIn(str(path), words[0])
                done = subprocess.run([BUILD / "bin/penstockd", *words, "--check-config"], check=False, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                # The folders that it writes to are volumes.
                cache = re.search(r"^cache_dir: (\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)[1]
                for parent in (str(Path(cache).parent), environment(daemon)["XDG_STATE_HOME"]):
                    self.assertIn(parent, [mount["mountPath"] for mount in daemon["volumeMounts"] if not mount.get("readOnly")])

    def test_metrics(self):
        for variant in kustomize.VARIANTS:
            objects = kustomize.build(variant, ("metrics",))
            workload = next(w for w in kustomize.workloads(objects) if kustomize.container(w, "penstockd"))
            daemon, meta = kustomize.container(workload, "penstockd"), workload["spec"]["template"]["metadata"]
            port = int(re.search(r"--http=0\.0\.0\.0:(\d+)", " ".join(daemon["args"]))[1])
            self.assertEqual(meta["annotations"], {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": "/metrics"})
            self.assertEqual([p["containerPort"] for p in daemon["ports"]], [port])
            policy = kustomize.one(objects, "NetworkPolicy")["spec"]
            self.assertLessEqual(policy["podSelector"]["matchLabels"].items(), meta["labels"].items())
            # All TCP ports but that one are open.
            ranges = sorted((p["port"], p["endPort"]) for p in policy["ingress"][1]["ports"] if p["protocol"] == "TCP")
            self.assertEqual(ranges, [(1, port - 1), (port + 1, 65535)])
            self.assertEqual(policy["ingress"][0]["ports"], [{"protocol": "TCP", "port": port}])
            # Without the component nothing listens on the network.
            self.assertNotIn("--http", str(kustomize.build(variant)))

    def test_web_identity(self):
        for variant in kustomize.VARIANTS:
            objects = kustomize.build(variant, ("web-identity",))
            account = kustomize.one(objects, "ServiceAccount")["metadata"]
            workload = next(w for w in kustomize.workloads(objects) if kustomize.container(w, "penstockd"))
            spec, daemon = workload["spec"]["template"]["spec"], kustomize.container(workload, "penstockd")
            self.assertEqual(spec["serviceAccountName"], account["name"])
            self.assertEqual(environment(daemon)["AWS_ROLE_ARN"], account["annotations"]["eks.amazonaws.com/role-arn"])
            token = Path(environment(daemon)["AWS_WEB_IDENTITY_TOKEN_FILE"])
            self.assertEqual(mounts(daemon)["aws-iam-token"]["mountPath"], str(token.parent))
            projected = next(v for v in spec["volumes"] if v["name"] == "aws-iam-token")["projected"]["sources"]
            self.assertEqual([source["serviceAccountToken"]["path"] for source in projected], [token.name])
            self.assertEqual(projected[0]["serviceAccountToken"]["audience"], "sts.amazonaws.com")
            for other in kustomize.workloads(objects):
                for container in kustomize.containers(other):
                    self.assertTrue(container["name"] == "penstockd" or not {"AWS_ROLE_ARN"} & set(environment(container)))
                    self.assertTrue(container["name"] == "penstockd" or "aws-iam-token" not in mounts(container))


if __name__ == "__main__":
    if not schema.folder() and not kustomize.program():
        print("skipped: neither the schemas (scripts/install-deps) nor Kustomize (kustomize or kubectl) is installed")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
