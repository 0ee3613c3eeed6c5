"""The rendered manifests: valid for Kubernetes, consistent, and with minimal permissions."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]  # untyped
import pytest
from jsonschema import Draft7Validator

from tests.tools.helm.chart import EVERYTHING, MINIMAL, ROLES, SETS, Document, Rendered, Values, pod_of, render_chart

Render = Callable[[str], Rendered]
OLDEST = "1.29"  # as in Chart.yaml
NAMES = (53, 5353)  # 5353: OpenShift's DNS
CUSTOM = json.loads(Path(__file__).with_name("custom_resources.json").read_text(encoding="utf-8"))


def matches(selector: Document, labels: Document) -> bool:
    wanted = selector.get("matchLabels", selector)
    return all(labels.get(key) == value for key, value in wanted.items())


def pods(shown: Rendered) -> Iterator[tuple[str, Document, Document]]:
    """Return role, labels and pod of each deployment."""
    for role in ROLES:
        deployment = shown.of_role("Deployment", role)
        yield role, deployment["spec"]["template"]["metadata"]["labels"], pod_of(deployment)


def selected(shown: Rendered, selector: Document) -> list[str]:
    return [role for role, labels, _ in pods(shown) if matches(selector, labels)]


@pytest.mark.parametrize(
    ("name", "version"), [*((name, OLDEST) for name in SETS), ("everything", kubernetes_validate.latest_version())]
)
def test_kubernetes_takes_every_document(render: Render, name: str, version: str) -> None:
    for document in render(name).documents:
        if document["apiVersion"].split("/")[0] in ("keda.sh", "monitoring.coreos.com"):
            found = Draft7Validator(CUSTOM[document["kind"]]).iter_errors(document)
            assert [f"{each.json_path}: {each.message}" for each in found] == []
        else:
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("name", SETS)
def test_everything_has_a_name_of_its_own_in_the_namespace(render: Render, name: str) -> None:
    documents = render(name).documents
    names = [(each["kind"], each["metadata"]["name"]) for each in documents]

    assert {each["metadata"]["namespace"] for each in documents} == {"flows"}
    assert len(names) == len(set(names))


def test_a_long_name_of_a_release_still_fits(renderer: Path) -> None:
    shown = render_chart(renderer, EVERYTHING, release="x" * 53)

    assert max(len(each["metadata"]["name"]) for each in shown.of_kind("Service")) <= 63
    assert {label for each in shown.documents for label in each["metadata"].get("labels", {}).values()}
    assert all(len(label) <= 63 for each in shown.documents for label in each["metadata"].get("labels", {}).values())


def test_minimal_values_render_the_roles_and_nothing_of_an_operator(render: Render) -> None:
    kinds = {each["kind"] for each in render("minimal").documents}

    assert kinds == {"Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "NetworkPolicy", "Pod"}


@pytest.mark.parametrize("name", SETS)
def test_selectors_mean_the_pods_of_one_role(render: Render, name: str) -> None:
    shown = render(name)

    for role in ROLES:
        deployment = shown.of_role("Deployment", role)
        spread = pod_of(deployment)["topologySpreadConstraints"]
        selectors = [deployment["spec"]["selector"], shown.of_role("PodDisruptionBudget", role)["spec"]["selector"]]
        selectors += [each["labelSelector"] for each in spread]
        if shown.values["networkPolicy"]["enabled"]:
            selectors.append(shown.of_role("NetworkPolicy", role)["spec"]["podSelector"])
        assert [selected(shown, each) for each in selectors] == [[role]] * len(selectors)


def test_services_and_the_monitor_reach_ports_that_are_open(render: Render) -> None:
    shown = render("everything")
    gateway, metrics = shown.of_kind("Service")
    [monitor] = shown.of_kind("PodMonitor")
    [ingress] = shown.of_kind("Ingress")
    [doctor] = shown.of_kind("Pod")

    assert selected(shown, gateway["spec"]["selector"]) == ["gateway"]
    assert selected(shown, metrics["spec"]["selector"]) == list(ROLES)
    assert selected(shown, monitor["spec"]["selector"]) == list(ROLES)
    assert not matches(metrics["spec"]["selector"], doctor["metadata"]["labels"])
    open_ports = {each["name"] for role in ROLES for each in shown.container(role)["ports"]}
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    targets = {each["targetPort"] for service in (gateway, metrics) for each in service["spec"]["ports"]}
    assert {*targets, endpoint["port"]} == open_ports
    [rule] = ingress["spec"]["rules"]
    backends = [each["backend"]["service"] for each in rule["http"]["paths"]]
    assert [each["path"] for each in rule["http"]["paths"]] == ["/hooks", "/forms"]
    assert backends == [{"name": gateway["metadata"]["name"], "port": {"name": "http"}}] * 2


def test_a_target_of_prometheus_is_named_by_job_and_role(render: Render) -> None:
    [monitor] = render("everything").of_kind("PodMonitor")
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    source = "__meta_kubernetes_pod_label_app_kubernetes_io_component"

    assert endpoint["relabelings"] == [
        {"action": "replace", "targetLabel": "job", "replacement": "unattended"},
        {"action": "replace", "targetLabel": "role", "sourceLabels": [source]},
        {"action": "labeldrop", "regex": "endpoint"},  # otherwise our label would become `exported_endpoint`
    ]
    assert [labels["app.kubernetes.io/component"] for _, labels, _ in pods(render("everything"))] == list(ROLES)


def test_a_role_may_connect_only_to_what_it_needs(render: Render) -> None:
    shown = render("minimal")
    reached = {}
    for role in ROLES:
        policy = shown.of_role("NetworkPolicy", role)["spec"]
        [listening] = shown.container(role)["ports"]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert [each["port"] for rule in policy["ingress"] for each in rule["ports"]] == [listening["containerPort"]]
        reached[role] = {port["port"] for rule in policy["egress"] for port in rule["ports"]}

    assert reached == {
        "gateway": {*NAMES, 27017, 6379},
        "scheduler": {*NAMES, 27017, 6379, 443},
        "watcher": {*NAMES, 27017, 6379},
        "worker": {*NAMES, 27017, 6379, 443},
        "exporter": {*NAMES, 27017},
    }


def test_peers_and_further_rules_are_those_of_the_values(render: Render) -> None:
    shown = render("everything")
    egress = shown.of_role("NetworkPolicy", "exporter")["spec"]["egress"]
    of_worker = shown.of_role("NetworkPolicy", "worker")["spec"]["egress"]

    assert egress[1] == {
        "ports": [{"port": 27017, "protocol": "TCP"}, {"port": 27018, "protocol": "TCP"}],
        "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    }
    assert egress[-1] == {"ports": [{"port": 4318, "protocol": "TCP"}]}
    [https] = [each["to"] for each in of_worker if each["ports"][0]["port"] == 443]
    assert [each["ipBlock"]["cidr"] for each in https] == ["0.0.0.0/0", "::/0"]
    assert "169.254.0.0/16" in https[0]["ipBlock"]["except"]


def test_allowed_callers_come_from_the_values(renderer: Path) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    shown = render_chart(renderer, {**MINIMAL, "networkPolicy": {"gatewayFrom": [peer], "prometheusFrom": []}})

    assert shown.of_role("NetworkPolicy", "gateway")["spec"]["ingress"][0]["from"] == [peer]
    assert shown.of_role("NetworkPolicy", "worker")["spec"]["ingress"] == []


@pytest.mark.parametrize("name", SETS)
def test_pods_are_restricted(render: Render, name: str) -> None:
    shown = render(name)
    [doctor] = shown.of_kind("Pod")

    for pod in [*(pod for _, _, pod in pods(shown)), doctor["spec"]]:
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["securityContext"].get("runAsUser") == (None if name == "openshift" else 10001)
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False  # a Service named unattended would set UNATTENDED_PORT
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
        assert "/tmp" in {each["mountPath"] for each in container["volumeMounts"]}  # noqa: S108 -- the pod's own


def test_secrets_and_files_go_to_the_roles_that_need_them(render: Render) -> None:
    shown = render("everything")

    def holders(word: str) -> list[str]:
        return [role for role, _, pod in pods(shown) if f'"{word}"' in json.dumps(pod)]

    [doctor] = shown.of_kind("Pod")
    assert all(word in json.dumps(doctor) for word in ("MODEL_KEY", "SHOP_KEY", "/etc/unattended/secrets/shop.keys"))
    assert holders("MODEL_KEY") == ["worker"]
    assert holders("SHOP_KEY") == ["gateway", "scheduler", "watcher", "worker"]
    assert holders("/etc/unattended/secrets/shop.keys") == ["gateway"]
    assert holders("/packages") == ["gateway", "scheduler", "watcher", "worker"]
    assert holders("/etc/unattended/models/models.yaml") == ["worker"]
    assert holders("/etc/unattended/operator/unattended.yaml") == ["worker"]
    assert holders("UNATTENDED_REDIS_URL") == ["gateway", "scheduler", "watcher", "worker"]
    assert holders("UNATTENDED_MONGODB_URL") == list(ROLES)


def test_pod_values_of_a_role_precede_those_of_all_roles(render: Render) -> None:
    shown = render("everything")
    worker, exporter = (shown.of_role("Deployment", role)["spec"]["template"] for role in ("worker", "exporter"))

    assert worker["spec"]["nodeSelector"] == {"pool": "chats"}
    assert worker["metadata"]["labels"]["team"] == "ops"
    assert "nodeSelector" not in exporter["spec"]
    assert {each["spec"]["priorityClassName"] for each in (worker, exporter)} == {"high"}
    assert {each["metadata"]["annotations"]["note"] for each in (worker, exporter)} == {"here"}


@pytest.mark.parametrize(
    "changed",
    [
        {"models": {"config": {"models": {"default": {"provider": "script"}}}}},
        {"operatorFile": {"config": {"compat": {"databases": []}}}},
    ],
)
def test_another_mounted_file_starts_workers_anew(renderer: Path, render: Render, changed: Values) -> None:
    def annotations(shown: Rendered) -> Document:
        return dict(shown.of_role("Deployment", "worker")["spec"]["template"]["metadata"]["annotations"])

    other = render_chart(renderer, {**EVERYTHING, **changed})

    assert annotations(other) != annotations(render("everything"))


def test_updates_and_drains_never_take_a_role_away_as_a_whole(render: Render) -> None:
    shown = render("everything")

    for role in ROLES:
        assert shown.of_role("Deployment", role)["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
        assert shown.of_role("PodDisruptionBudget", role)["spec"]["maxUnavailable"] == 1
    # The scaler sets the number of workers; an upgrade of the chart must not.
    assert ["replicas" in shown.of_role("Deployment", role)["spec"] for role in ROLES] == [
        True,
        True,
        True,
        False,
        True,
    ]
