"""The chart, render_chart for several sets of values."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Document = dict[str, Any]
Values = Mapping[str, Any]

ROOT = Path(__file__).parents[3]
CHART = ROOT / "ops" / "helm" / "unattended"
ROLES = ("gateway", "scheduler", "watcher", "worker", "exporter")
# Values without a default.
MINIMAL: Values = {"mongodb": {"secretName": "servers"}, "redis": {"secretName": "servers"}}
EVERYTHING: Values = {
    **MINIMAL,
    "image": {"repository": "example/flows", "tag": "7", "pullSecrets": ["pulling"]},
    "publicUrl": "https://flows.example/",
    "settings": {"UNATTENDED_BODY_LIMIT_BYTES": 2097152, "CONTEXT_INCLUDE_SCHEMA": False, "UNATTENDED_CAPS": "app=20"},
    "packages": {"volume": {"configMap": {"name": "flows", "items": [{"key": "a", "path": "Morning/agents.yaml"}]}}},
    "models": {"config": {"models": {"default": {"provider": "openai", "model": "m", "api_key": "env:MODEL_KEY"}}}},
    "operatorFile": {"config": {"compat": {"databases": ["shop"]}}},
    "secrets": {
        "env": [
            {"name": "MODEL_KEY", "secret": "models", "key": "openai", "roles": ["worker"]},
            {"name": "SHOP_KEY", "secret": "shop.keys", "key": "key"},
        ],
        "files": [{"secret": "shop.keys", "roles": ["gateway"]}],
    },
    "worker": {
        "concurrency": 50,
        "graceSeconds": 60,
        "resources": {"limits": {"memory": "3Gi"}},
        "pod": {"nodeSelector": {"pool": "chats"}, "labels": {"team": "ops"}},
        "autoscaling": {"enabled": True, "prometheusUrl": "http://prometheus.example:9090"},
    },
    "pod": {"annotations": {"note": "here"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "high"},
    "serviceAccount": {"annotations": {"role": "arn"}},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "host": "flows.example",
        "annotations": {"a": "b"},
        "tlsSecretName": "tls",
    },
    "networkPolicy": {
        "mongodb": {"ports": [27017, 27018], "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        "extraEgress": [{"ports": [{"port": 4318, "protocol": "TCP"}]}],
    },
    "monitoring": {
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "alerts": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True},
    },
}
OPENSHIFT: Values = {
    **MINIMAL,
    "pod": {"runAsUser": None},
    "networkPolicy": {"enabled": False},
    "models": {"path": "/m"},
}
SETS: Mapping[str, Values] = {"minimal": MINIMAL, "everything": EVERYTHING, "openshift": OPENSHIFT}


class RefusedError(Exception):
    """Helm would refuse to render; the text is its message."""


@dataclass(frozen=True, slots=True)
class Rendered:
    values: Document
    files: Mapping[str, str]
    documents: Sequence[Document]

    @property
    def notes(self) -> str:
        return self.files["templates/NOTES.txt"]

    def of_kind(self, kind: str) -> list[Document]:
        return [each for each in self.documents if each["kind"] == kind]

    def of_role(self, kind: str, role: str) -> Document:
        [found] = [each for each in self.of_kind(kind) if each["metadata"]["name"].endswith(f"-{role}")]
        return found

    def container(self, role: str) -> Document:
        [container] = pod_of(self.of_role("Deployment", role))["containers"]
        return dict(container)


def pod_of(deployment: Document) -> Document:
    return dict(deployment["spec"]["template"]["spec"])


def render_chart(
    renderer: Path, values: Values, *, release: str = "unattended", namespace: str = "flows", chart: Path = CHART
) -> Rendered:
    asked = {"chart": str(chart), "release": release, "namespace": namespace, "values": values}
    done = subprocess.run([renderer], input=json.dumps(asked).encode(), capture_output=True, check=False, timeout=30)
    if done.returncode:
        raise RefusedError(done.stderr.decode())
    answer = json.loads(done.stdout)
    documents = sorted(answer["documents"], key=lambda each: (each["kind"], each["metadata"]["name"]))
    return Rendered(answer["values"], answer["files"], documents)
