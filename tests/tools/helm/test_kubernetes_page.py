"""docs/kubernetes.md matches the chart: values, files and commands."""

import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.promtool import promtool
from tests.tools.helm.chart import CHART, MINIMAL, ROLES, ROOT, Rendered, render_chart
from tests.tools.helm.test_values import SCHEMA, given
from tests.unit.docs.test_docs import Block, blocks, read

PAGE = ROOT / "docs" / "kubernetes.md"
OWN = yaml.safe_load(read(CHART / "values.yaml"))
VALUES = [yaml.safe_load(block.text) for block in blocks(PAGE) if block.file == "values.yaml"]


def block_of(file: str) -> Block:
    [found] = [each for each in blocks(PAGE) if each.file == file]
    return found


def commands() -> Iterator[list[str]]:
    lines = [line for block in blocks(PAGE) if block.language == "bash" for line in block.text.splitlines()]
    in_text = re.findall(r"`((?:helm|kubectl) [^`]+)`", read(PAGE))
    yield from (shlex.split(part) for line in [*lines, *in_text] for part in line.split(" && "))


def default_of(path: str) -> Any:
    value: Any = OWN
    for key in path.split("."):
        assert key in value, path
        value = value[key]
    return value


def test_the_table_has_every_value_and_none_that_is_not_there() -> None:
    [table] = re.findall(r"^\| value \|.*\n(?:\|.*\n)*", read(PAGE), re.MULTILINE)
    named = {each for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for each in re.findall(r"`(.+?)`", row)}

    assert {each.split(".")[0] for each in named} == set(OWN)
    for path in named:
        default_of(path)


def test_values_in_the_text_are_values_of_the_chart() -> None:
    tops = "|".join(OWN)
    named = set(re.findall(rf"`((?:{tops})\.[a-zA-Z.]+)[`:]", read(PAGE))) - {"models.yaml"}

    assert len(named) > 20
    for path in named:
        default_of(path)


@pytest.mark.parametrize("values", VALUES, ids="-".join)
def test_values_of_the_page_are_rendered(renderer: Path, values: dict[str, Any]) -> None:
    assert [each.message for each in Draft7Validator(SCHEMA).iter_errors(given(values))] == []

    assert render_chart(renderer, {**MINIMAL, **values}).of_kind("Deployment")


def test_commands_name_what_the_chart_makes(render: Callable[[str], Rendered]) -> None:
    shown = render("everything")
    existing = {(each["kind"].lower(), each["metadata"]["name"]) for each in shown.documents}
    kinds = {kind for kind, _ in existing}
    for words in commands():
        for option, value in pairwise(words):
            if option == "--set":
                default_of(value.partition("=")[0])
        for kind, name in pairwise(words):
            if kind in kinds:
                assert (kind, name) in existing, words
        assert all(tuple(word.split("/")) in existing for word in words if word.startswith(("service/", "deploy/")))
        assert all((ROOT / word).resolve() == CHART for word in words if word.startswith("ops/"))


def test_the_first_installation_has_the_secrets_that_the_chart_reads() -> None:
    [made] = [words for words in commands() if "secret" in words]
    keys = {word.partition("=")[2].partition("=")[0] for word in made if word.startswith("--from-literal")}

    assert keys == {OWN["mongodb"]["secretKey"], OWN["redis"]["secretKey"]}
    assert made[made.index("generic") + 1] == "servers"


def test_the_first_installation_sets_values_that_the_chart_takes(renderer: Path) -> None:
    """`--set` parses text that looks like a number as one."""
    [install] = [words for words in commands() if "--set" in words]
    values: dict[str, Any] = {}
    for option, value in pairwise(install):
        if option == "--set":
            path, _, text = value.partition("=")
            top, key = path.split(".")
            values.setdefault(top, {})[key] = int(text) if text.isdigit() else text

    assert [each.message for each in Draft7Validator(SCHEMA).iter_errors(given(values))] == []
    assert render_chart(renderer, values).container("worker")["image"].endswith("/unattended:1")


def test_prometheus_takes_the_configuration_and_finds_the_roles(
    render: Callable[[str], Rendered], tmp_path: Path
) -> None:
    whole = yaml.safe_load(block_of("prometheus.yml").text)
    [job] = whole["scrape_configs"]
    [discovery] = job.pop("kubernetes_sd_configs")  # Debian's Prometheus lacks it
    job["static_configs"] = [{"targets": ["127.0.0.1:9400"]}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(whole), encoding="utf-8")
    services = {each["metadata"]["name"]: each["spec"] for each in render("minimal").of_kind("Service")}

    status, output = promtool("check", "config", tmp_path / "prometheus.yml")

    assert status == 0, output
    assert discovery == {"role": "endpoints", "namespaces": {"names": ["flows"]}}
    assert job["job_name"] == "unattended"
    assert services[job["relabel_configs"][0]["regex"]]["publishNotReadyAddresses"] is True
    assert job["relabel_configs"][1]["target_label"] == "role"


def test_an_image_with_packages_puts_them_where_ours_looks() -> None:
    own = read(ROOT / "Dockerfile")
    places = re.findall(r"^COPY \S+ (\S+)$", block_of("Dockerfile").text, re.MULTILINE)
    [workdir] = re.findall(r"^WORKDIR (/flows)$", own, re.MULTILINE)

    assert places == [f"{workdir}/workflows", f"{workdir}/models.yaml"]
    assert re.findall(r"^USER (\d+):", own, re.MULTILINE) == [str(OWN["pod"]["runAsUser"])]
    assert re.findall(r"^EXPOSE (.+)$", own, re.MULTILINE) == ["8400 9400 9401"]


def test_every_role_has_a_readiness_probe() -> None:
    [table] = re.findall(r"^\| role \| ready \|\n(?:\|.*\n)*", read(PAGE), re.MULTILINE)

    assert re.findall(r"^\| (\w+) \|", table, re.MULTILINE)[1:] == list(ROLES)
