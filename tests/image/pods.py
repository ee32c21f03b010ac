"""config/kubernetes as pods, started by `podman kube play`.

podman is not Kubernetes. What it does not have is put in the place of what Kubernetes does:
- Jobs and DaemonSets: their pods are started. Resources are left out, because the machine may have fewer; so are ports, because the
  pods have no network.
- A sidecar (an init container with `restartPolicy: Always`) is one of the other containers. The trainer waits for the command of its
  startup probe.
- The claim of a volume with the dataset is a folder. So are folders of the node, below the test's own.
- An emptyDir is a folder that is open to all and has the group of fsGroup, as the kubelet makes it.
- Tokens of service accounts (the component web-identity): not run; tests/kubernetes compares them with the schemas."""
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kubernetes"))
try:
    import yaml
    import kustomize
except ImportError:
    yaml = kustomize = None

import __main__ as run

WHY_NOT = ("scripts/install-deps prepares .venv-kubernetes" if not yaml else
           "neither kustomize nor kubectl is installed" if not kustomize.program() else
           "podman's pods for other users are not tested" if os.geteuid() else None)

# Kills of a daemon in a test, and epochs of its trainer: each kill takes some seconds, in which it gets no batch.
KILLS, EPOCHS = 20, "epochs=40"


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Pods(run.Case):
    @classmethod
    def setUpClass(cls):
        cls.long = cls.alone(EPOCHS)

    def setUp(self):
        self.node = Path(tempfile.mkdtemp(prefix="n", dir=self.room))
        self.node.chmod(0o755)
        self.addCleanup(self.engine.podman, "pod", "rm", "--all", "--force", "--time=0", check=False)

    def volume(self, volume, group):
        """As a folder below the node's."""
        if "configMap" in volume:
            return volume
        if "persistentVolumeClaim" in volume:
            return {"name": volume["name"], "hostPath": {"path": str(self.data), "type": "Directory"}}
        own = "hostPath" in volume
        folder = Path(f"{self.node}{volume['hostPath']['path']}") if own else Path(tempfile.mkdtemp(dir=self.node))
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, 0, 0 if own else group)
        folder.chmod(0o755 if own else 0o2777)
        return {"name": volume["name"], "hostPath": {"path": str(folder), "type": "Directory"}}

    def pod(self, objects, name, *keys, also=""):
        """What `kube play` takes for the pods of a workload."""
        workload = next(one for one in kustomize.workloads(objects) if one["metadata"]["name"] == name)
        template = workload["spec"]["template"]
        spec = template["spec"]
        inits = spec.pop("initContainers", [])
        sidecars = [one for one in inits if one.pop("restartPolicy", None) == "Always"]
        spec["initContainers"] = [one for one in inits if one not in sidecars]
        spec["containers"] = sidecars + spec["containers"]
        for container in spec["initContainers"] + spec["containers"]:
            container.pop("resources")
            container.pop("ports", None)
            container["image"] = f"localhost/{container['image']}"
            container["imagePullPolicy"] = "Never"
            if container["name"] == "trainer":
                container.update(command=["dump_batches"], args=["source=/data", *run.STREAM, *keys])
                if sidecars:
                    probe = " ".join(sidecars[0]["startupProbe"]["exec"]["command"])
                    waits = f'until {probe} >/dev/null 2>&1; do sleep 0.2; done; exec dump_batches "$@"'
                    container.update(command=["sh", "-ec", waits, "trainer"])
        spec["volumes"] = [self.volume(volume, spec["securityContext"].get("fsGroup", 0)) for volume in spec["volumes"]]
        spec["restartPolicy"] = "Never"  # so that a test sees how a container ended
        settings = kustomize.one(objects, "ConfigMap")
        settings["data"]["penstock.yaml"] = settings["data"]["penstock.yaml"].replace("memory: 6G", "memory: 64M")
        return [settings, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name + also, "labels": template["metadata"]["labels"]}, "spec": spec}]

    def play(self, documents):
        path = Path(tempfile.mkdtemp(dir=self.node)) / "pod.yaml"
        path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
        self.engine.podman("kube", "play", "--network=none", path)

    def ends(self, name):
        self.engine.until(lambda: self.engine.state(name)[0] == "exited", f"{name} to end", name)
        self.assertEqual(self.engine.state(name)[1], 0, self.engine.logs(name))

    def under_way(self, name, before=0):
        """At least three batches more than before; returns how many it has."""
        self.engine.until(lambda: len(run.batches(self.engine.logs(name))) >= before + 3, "three batches", name)
        return len(run.batches(self.engine.logs(name)))

    def lost(self, pod):
        self.engine.podman("kill", "--signal=KILL", f"{pod}-{pod}")
        self.engine.podman("pod", "rm", "--force", "--time=0", pod)

    def test_sidecar(self):
        """The sidecar is killed in mid-epoch and started again, time after time; the trainer goes on with the next batch."""
        self.play(self.pod(kustomize.build("sidecar", ("metrics",)), "train-sidecar", "sleep_ms=200", EPOCHS))
        daemon, trainer = "train-sidecar-penstockd", "train-sidecar-trainer"
        self.engine.ready(daemon)
        had = self.under_way(trainer)
        # The processes are numbered together, so the daemon and its recorder see the trainer.
        self.assertRegex(self.engine.podman("exec", daemon, "penstock", "status"), r"trainer [1-9]\d*, at batch")
        for _kill in range(KILLS):
            self.engine.podman("kill", "--signal=KILL", daemon)
            self.engine.until(lambda: self.engine.state(daemon)[0] == "exited", "the sidecar to be gone")
            self.assertEqual(self.engine.state(trainer)[0], "running", "the trainer ended before its sidecar was killed so often")
            self.engine.podman("start", daemon)
            had = self.under_way(trainer, had)
        self.ends(trainer)
        self.assertEqual(run.batches(self.engine.logs(trainer)), self.long)
        print(f"the sidecar was killed {KILLS} times", flush=True)
        log = self.engine.logs(daemon)
        self.assertRegex(log, run.HIDDEN)
        self.assertIn('"message":"metrics and the page: http://0.0.0.0:9470/', log)
        self.assertRegex(log, r"trainer \d+ ended with status 0")
        self.assertIn("penstockd", self.engine.podman("exec", daemon, "penstock", "why", "--all", check=False).stdout)

    def test_a_trainer_that_fails(self):
        """The daemon beside it says how it ended."""
        self.play(self.pod(kustomize.build("sidecar"), "train-sidecar", "die_at=3", "sleep_ms=200"))
        daemon, trainer = "train-sidecar-penstockd", "train-sidecar-trainer"
        self.engine.ready(daemon)
        self.engine.until(lambda: self.engine.state(trainer)[0] == "exited", "the trainer to end", trainer)
        self.assertEqual(self.engine.state(trainer)[1], 137)
        self.engine.until(lambda: "SIGKILL" in self.engine.podman("exec", daemon, "penstock", "why", check=False).stdout, "the record of it", daemon)

    def test_daemonset(self):
        """A daemon for two trainers in pods of their own. Its pod is replaced in mid-epoch, time after time, as by updates."""
        # The trainers' pods come first: they wait for the daemon in an init container.
        self.play(self.pod(kustomize.build("daemonset"), "penstockd"))
        self.engine.ready("penstockd-penstockd")
        for number in (1, 2):
            self.play(self.pod(kustomize.build("daemonset"), "train-daemonset", "sleep_ms=300", EPOCHS, also=f"-{number}"))
        had = [self.under_way(f"train-daemonset-{number}-trainer") for number in (1, 2)]
        self.assertEqual(self.engine.podman("exec", "penstockd-penstockd", "stat", "-c", "%a %u", "/run/penstock/socket").strip(), "700 1000")
        for kill in range(KILLS):
            # Half of them are deleted, and half killed: as by an update, and as by the kernel.
            if kill % 2:
                self.lost("penstockd")
            else:
                self.engine.podman("pod", "rm", "--force", "--time=20", "penstockd")
            self.play(self.pod(kustomize.build("daemonset", ("metrics",)), "penstockd"))
            had = [self.under_way(f"train-daemonset-{number}-trainer", before) for number, before in zip((1, 2), had)]
        for number in (1, 2):
            self.ends(f"train-daemonset-{number}-trainer")
            self.assertEqual(run.batches(self.engine.logs(f"train-daemonset-{number}-trainer")), self.long)
        print(f"the daemon's pod was replaced {KILLS} times", flush=True)

    def test_trainers_without_a_daemon(self):
        """They wait for it. A socket's folder that only root could make is refused by name."""
        objects = kustomize.build("daemonset")
        documents = self.pod(objects, "penstockd")
        documents[1]["spec"]["initContainers"] = []  # that make the daemon's folders
        self.play(documents)
        self.engine.until(lambda: self.engine.state("penstockd-penstockd")[0] == "exited", "penstockd to end")
        self.assertRegex(self.engine.logs("penstockd-penstockd"), "the folder of the socket /run/penstock/socket/penstock.sock cannot be used: Permission denied")
