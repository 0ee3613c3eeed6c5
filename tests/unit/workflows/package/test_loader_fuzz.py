"""The loader on random files: any content results in findings, never in an exception."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops.cli.packages.verdicts import inspection_json, print_verdict
from tests.unit.workflows.package.dialects import DIALECTS, TOOL_FILES
from workflows.package.files.yaml_reader import read_yaml
from workflows.package.loader import inspect_package

COUNTED = {"agents", "tools", "lifecycle_tools", "handoffs", "variables", "models", "hooks", "triggers"}
FIELDS = {"level": str, "code": str, "file": str, "path": str, "message": str}
quick = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

words = st.sampled_from(
    ["", "A", "B", "v", "user", "terminate", "${v}", "${", "=[", "{{", "../x", "/", ".", "a.b", "$ne", "{x.__class__}"]
)
harmful = st.sampled_from(
    ["* * * * *", "env:X", "file:/dev/zero", "1h", "true", "on", "null", "\ud800", "a\x00b", "\x1b[31m", "é" * 300]
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 2**70), st.floats(), words, harmful)
keys = st.sampled_from(["type", "name", "source", "agents", "variables", "tools", "models", "items", "$ne", ""])
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)


def spots(files: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Returns every node as its container and its key there."""
    found: list[tuple[Any, Any]] = []
    waiting: list[Any] = [files]
    while waiting:
        container = waiting.pop()
        for key in list(container) if isinstance(container, dict) else range(len(container)):
            found.append((container, key))
            if isinstance(container[key], dict | list):
                waiting.append(container[key])
    return found


@st.composite
def mutated_packages(draw: st.DrawFn) -> dict[str, Any]:
    """A valid package with a few nodes deleted, replaced, repeated or renamed."""
    files = copy.deepcopy(dict(DIALECTS[draw(st.sampled_from(sorted(DIALECTS)))]))
    for _ in range(draw(st.integers(1, 4))):
        found = spots(files)
        if not found:
            break
        container, key = found[draw(st.integers(0, len(found) - 1))]
        change = draw(st.sampled_from(["delete", "replace", "replace", "repeat"]))
        if change == "replace" or container is files:
            container[key] = draw(anything)
        elif change == "delete":
            del container[key]
        elif isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        else:
            container[draw(keys)] = copy.deepcopy(container[key])
    return files


def write_files(folder: Path, texts: Mapping[str, str | bytes]) -> Path:
    for stale in folder.rglob("*.*"):
        stale.unlink()
    for name, text in {**TOOL_FILES, **texts}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return folder


def check_the_answer(folder: Path) -> dict[str, Any]:
    inspection = inspect_package(folder)
    answer = inspection_json(inspection, folder)
    print_verdict(inspection, folder)

    assert list(answer) == ["name", "path", "verdict", "counts", "findings"]
    assert answer["verdict"] in ("ready", "findings", "refused")
    assert set(answer["counts"]) == COUNTED
    assert all(isinstance(number, int) and number >= 0 for number in answer["counts"].values())
    for finding in answer["findings"]:
        assert {field: type(value) for field, value in finding.items()} == FIELDS
        assert finding["level"] in ("info", "warning", "error")
        assert finding["code"]
        assert finding["message"]
    json.dumps(answer, ensure_ascii=False).encode("utf-8")
    return answer


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_no_dialect_is_refused_as_it_is(tmp_path: Path, name: str) -> None:
    texts = {f"{stem}.yaml": yaml.safe_dump(body) for stem, body in DIALECTS[name].items()}
    answer = check_the_answer(write_files(tmp_path, texts))
    assert [each for each in answer["findings"] if each["level"] == "error"] == []


@quick
@given(mutated_packages())
def test_a_mutated_package_in_yaml(tmp_path: Path, files: dict[str, Any]) -> None:
    check_the_answer(write_files(tmp_path, {f"{stem}.yaml": yaml.safe_dump(body) for stem, body in files.items()}))


@quick
@given(mutated_packages())
def test_a_mutated_package_in_json(tmp_path: Path, files: dict[str, Any]) -> None:
    check_the_answer(write_files(tmp_path, {f"{stem}.json": json.dumps(body) for stem, body in files.items()}))


@st.composite
def scribbled_packages(draw: st.DrawFn) -> dict[str, str | bytes]:
    """The text of a valid package with one file cut, or with odd characters in it."""
    files = DIALECTS[draw(st.sampled_from(sorted(DIALECTS)))]
    texts: dict[str, str | bytes] = {f"{stem}.yaml": yaml.safe_dump(body) for stem, body in files.items()}
    name = draw(st.sampled_from(sorted(texts)))
    raw = str(texts[name]).encode()
    at = draw(st.integers(0, len(raw)))
    odd = draw(
        st.sampled_from(["", "[", "}", "\t", "&a ", "*a", "!!int ", "? ", ": ", "- ", "<<: ", "|", "\x00", "\ud800"])
    )
    rest = raw[at:] if draw(st.booleans()) else b""
    texts[name] = raw[:at] + odd.encode("utf-8", "surrogatepass") + rest
    return texts


@quick
@given(scribbled_packages())
def test_a_scribbled_text_is_answered_with_findings(tmp_path: Path, texts: dict[str, str | bytes]) -> None:
    check_the_answer(write_files(tmp_path, texts))


@quick
@given(st.binary(max_size=60))
def test_bytes_that_are_no_text(tmp_path: Path, raw: bytes) -> None:
    texts = {f"{stem}.yaml": raw for stem in ("orchestrator", "agents", "tools")}
    check_the_answer(write_files(tmp_path, {**texts, "handoffs.json": raw}))


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=20,
)


@given(plain, st.booleans())
def test_yaml_is_read_as_the_reference_reads_it(data: Any, flow: bool) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow)
    assert read_yaml(text).data == yaml.load(text, yaml.CSafeLoader) == data
