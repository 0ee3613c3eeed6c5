"""Reads triggers: aliases to one type name, then the strict spec with its own checks."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from workflows.package.findings import Findings
from workflows.package.trigger_specs import NOT_OURS, SPEC_BY_TYPE, TriggerSpec


def read_triggers(entries: Any, *, file: str, findings: Findings) -> tuple[TriggerSpec, ...]:
    if isinstance(entries, Mapping):
        entries = entries.get("triggers") or []
    if not isinstance(entries, list):
        findings.add("error", "wrong_type", file, "triggers", "must be a list of triggers")
        return ()
    specs: list[TriggerSpec] = []
    for index, entry in enumerate(entries):
        path = f"triggers[{index}]"
        spec = _read_one(entry, index=index, path=path, file=file, findings=findings)
        if spec is None:
            continue
        if any(spec.name == other.name for other in specs):
            findings.add("error", "duplicate_trigger", file, path, f"the name {spec.name} is used twice; rename one")
        specs.append(spec)
    return tuple(specs)


def _read_one(entry: Any, *, index: int, path: str, file: str, findings: Findings) -> TriggerSpec | None:
    if not isinstance(entry, Mapping):
        findings.add("error", "wrong_type", file, path, "must be a mapping with a type")
        return None
    kind = str(entry.get("type", "")).lower()
    if kind in NOT_OURS:
        findings.add(
            "info", "not_ours", file, path, f"a {kind} trigger needs a person in the chat; it starts nothing here"
        )
        return None
    model = SPEC_BY_TYPE.get(kind)
    if model is None:
        known = ", ".join(sorted(SPEC_BY_TYPE))
        findings.add("error", "unknown_trigger", file, f"{path}.type", f"{kind or 'nothing'} is not one of {known}")
        return None
    canonical = str(model.model_fields["type"].default)
    try:
        given = {field: value for field, value in entry.items() if value is not None}  # null is how authors leave out
        spec = model.model_validate({"name": f"{canonical}-{index}", **given, "type": canonical})
    except ValidationError as error:
        _report(error, path=path, file=file, findings=findings)
        return None
    _report_inactive(spec, path=path, file=file, findings=findings)
    return spec


def _report(error: ValidationError, *, path: str, file: str, findings: Findings) -> None:
    for each in error.errors(include_url=False):
        place = ".".join([path, *(str(part) for part in each["loc"])])
        message = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            message = "is not a field of this trigger; check the spelling or leave it out"
        findings.add("error", "bad_trigger", file, place, message)


def _report_inactive(spec: TriggerSpec, *, path: str, file: str, findings: Findings) -> None:
    if not spec.apps and spec.app_id is None:
        findings.add("warning", "inactive_trigger", file, path, "names no apps, so it starts nothing; add apps: [...]")
