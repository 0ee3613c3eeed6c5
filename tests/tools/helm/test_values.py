"""The chart's values: the schema accepts valid ones, and names the place of an error."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError

from tests.tools.helm.chart import CHART, MINIMAL, ROLES, SETS, RefusedError, Rendered, Values, render_chart
from workers.settings import setting_fields, variable_name

SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft7Validator(SCHEMA)


def merge_values(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge as Helm does: objects key by key; null removes a key."""
    merged = dict(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge_values(merged[key], value)
        else:
            merged[key] = value
    return merged


def given(values: Values) -> dict[str, Any]:
    own = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return merge_values(merge_values(own, MINIMAL), values)


def schema_messages(values: Values) -> list[str]:
    """Return Helm's errors: place and message of each."""
    return [f"{'.'.join(map(str, each.path))}: {each.message}" for each in errors(values)]


def errors(values: Values) -> Iterator[ValidationError]:
    yield from VALIDATOR.iter_errors(given(values))


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", SETS)
def test_the_schema_takes_what_is_rendered(name: str, render: Callable[[str], Rendered]) -> None:
    values = render(name).values

    assert [str(each.message) for each in VALIDATOR.iter_errors(values)] == []
    assert values == given(SETS[name])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gatway": {}}, "'gatway' was unexpected"),
        ({"settings": {"UNATTENDED_LEASES": 30}}, "settings: 'UNATTENDED_LEASES' does not match"),
        ({"settings": {"UNATTENDED_GRACE_S": 30}}, "'UNATTENDED_GRACE_S'"),
        ({"settings": {"UNATTENDED_CAPS": {"app": 20}}}, "settings.UNATTENDED_CAPS"),
        ({"worker": {"graceSeconds": 0}}, "worker.graceSeconds: 0 is less than the minimum of 1"),
        ({"worker": {"graceSeconds": "7s"}}, "worker.graceSeconds: '7s' is not of type 'integer'"),
        ({"worker": {"resources": {"limits": {"memory": "2.5Gi"}}}}, "worker.resources.limits.memory: '2.5Gi'"),
        ({"worker": {"resources": {"limits": {"memory": None}}}}, "worker.resources.limits: 'memory' is a required"),
        ({"worker": {"autoscaling": {"minReplicas": 0}}}, "worker.autoscaling.minReplicas"),
        ({"scheduler": {"replicas": 0}}, "scheduler.replicas: 0 is less than the minimum of 1"),
        ({"pod": {"runAsUser": 0}}, "pod.runAsUser"),
        ({"gateway": {"pod": {"runAsUser": 7}}}, "gateway.pod"),
        ({"publicUrl": "flows.example"}, "publicUrl"),
        ({"secrets": {"env": [{"name": "KEY", "secret": "models"}]}}, "secrets.env.0: 'key' is a required property"),
        ({"secrets": {"files": [{"secret": "s", "roles": ["workers"]}]}}, "secrets.files.0.roles.0: 'workers'"),
        ({"networkPolicy": {"gatewayFrom": [{}]}}, "networkPolicy.gatewayFrom.0"),
        ({"packages": {"volume": {"name": "mine", "emptyDir": {}}}}, "packages.volume"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_that_is_not_meant_is_named(values: Values, words: str) -> None:
    assert any(words in each for each in schema_messages(values)), schema_messages(values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"packages": {"path": "/flows", "volume": {"emptyDir": {}}}, "models": {"path": "/m"}}, "packages.path and"),
        ({"packages": {"path": "/flows"}}, "models is empty, but packages are not"),
        ({"models": {"path": "/m", "configMap": "models"}}, "models: set one of path, config and configMap"),
        ({"operatorFile": {"path": "/o", "config": {"compat": {}}}}, "operatorFile: set one of path, config and"),
        ({"worker": {"autoscaling": {"enabled": True}}}, "worker.autoscaling.prometheusUrl is empty"),
        ({"worker": {"autoscaling": {"minReplicas": 30}}}, "worker.autoscaling.minReplicas is above maxReplicas"),
        ({"ingress": {"enabled": True}}, "ingress.host is empty"),
        (
            {"secrets": {"env": [{"name": "UNATTENDED_REDIS_URL", "secret": "s", "key": "k"}]}},
            "secrets.env: UNATTENDED_REDIS_URL comes from",
        ),
        (
            {"secrets": {"files": [{"secret": "s"}, {"secret": "s", "roles": ["worker"]}]}},
            "secrets.files: s is there twice",
        ),
        (
            {"secrets": {"env": [{"name": "ENVIRONMENT", "secret": "s", "key": "k"}]}},
            "ENVIRONMENT stands in settings and in secrets.env",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_contradict_each_other_are_refused(renderer: Path, values: Values, words: str) -> None:
    assert schema_messages(values) == []

    with pytest.raises(RefusedError, match=words):
        render_chart(renderer, {**MINIMAL, **values})


def test_all_missing_values_are_reported_at_once(renderer: Path) -> None:
    with pytest.raises(RefusedError, match=r"(?s)\nmongodb\.secretName is empty: .*\nredis\.secretName is empty: "):
        render_chart(renderer, {})


def test_a_copy_that_lost_its_links_is_refused(renderer: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(CHART, tmp_path / "chart", ignore=shutil.ignore_patterns("files"))
    values = {**MINIMAL, "monitoring": {"alerts": {"enabled": True}, "dashboards": {"enabled": True}}}

    with pytest.raises(RefusedError, match=r"monitoring\.alerts .*\nmonitoring\.dashboards .*helm package"):
        render_chart(renderer, values, chart=copied)


def test_every_value_of_the_schema_has_its_default_in_the_values_file() -> None:
    own = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    named = set(SCHEMA["properties"]) - {"global"}

    assert named == set(own)
    for name in named - {"settings", *ROLES}:
        properties = SCHEMA["properties"][name].get("properties", {})
        assert set(properties) == (set(own[name]) if properties else set()), name
    for role in ROLES:
        assert set(SCHEMA["properties"][role]["properties"]) == set(own[role])


def test_every_setting_has_exactly_one_place(render: Callable[[str], Rendered]) -> None:
    by_value = set(SCHEMA["properties"]["settings"]["properties"])
    by_chart = {each["name"] for role in ROLES for each in render("everything").container(role)["env"]} - by_value
    known = {name for each in setting_fields() if not (name := variable_name(each)).startswith("OTEL_")}

    # For the embedded servers, which the chart does not use.
    assert by_value | by_chart - {"MODEL_KEY", "SHOP_KEY"} == known - {"UNATTENDED_DATA_DIR"}
