"""Reads triggers: aliases to one type name, then the strict spec with its own checks."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from workflows.package.findings import Findings
from workflows.package.reading.section import Section
from workflows.package.trigger_specs import (
    CRON_FIELDS,
    NOT_OURS,
    SPEC_BY_TYPE,
    UNSUPPORTED,
    ScheduleSpec,
    TriggerSpec,
    WebhookSpec,
)

_ADDRESS_FIELDS = ("endpoint", "path", "method")


def read_triggers(entries: Any, *, file: str, findings: Findings) -> tuple[TriggerSpec, ...]:
    specs: list[TriggerSpec] = []
    for index, entry in enumerate(_list(entries, file=file, findings=findings)):
        section = Section(entry, file=file, path=f"triggers[{index}]", findings=findings)
        spec = _read_one(section, index=index) if isinstance(entry, Mapping) else None
        if spec is None:
            continue
        if any(spec.name == other.name for other in specs):
            section.error("duplicate_trigger", "", f"the name {spec.name} is used twice; rename one")
        specs.append(spec)
    return tuple(specs)


def _list(entries: Any, *, file: str, findings: Findings) -> list[Any]:
    if isinstance(entries, Mapping) and not ("type" in entries and "triggers" not in entries):
        root = Section(entries, file=file, path="", findings=findings)
        entries = root.get("triggers")
        root.get("schema_version", "version", "description")
        root.report_rest("is not read here; write a list under triggers")
    if entries is None:
        return []
    if not isinstance(entries, list):
        findings.add("error", "wrong_type", file, "triggers", "must be a list of triggers, each with a dash before it")
        return []
    return entries


def _read_one(section: Section, *, index: int) -> TriggerSpec | None:
    kind = _kind(section)
    if kind in NOT_OURS:
        message = f"a {kind} trigger needs a person in the chat; it starts nothing here"
        section.findings.add("info", "not_ours", section.file, section.path, message)
        return None
    if kind in UNSUPPORTED:
        section.warning("unsupported_trigger", "", f"{UNSUPPORTED[kind]}; as it is, it starts nothing")
        return None
    model = SPEC_BY_TYPE.get(kind)
    if model is None:
        known = ", ".join(sorted(SPEC_BY_TYPE))
        section.error("unknown_trigger", "type", f"{kind or 'nothing'} is not one of {known}")
        return None
    spec = _validated(section, model, index=index)
    if spec is not None:
        _report_without_effect(spec, section)
    return spec


def _kind(section: Section) -> str:
    """Triggers of domain events and of endpoints may go without a type."""
    written = section.get("type")
    if written is None:
        written = next((field for field in ("event", "endpoint") if section.get(field) is not None), "")
    if not isinstance(written, str):
        return "what is no text"
    kind = written.strip().lower()
    # An address alone is how other runtimes say what starts by hand; ours have a signature to verify.
    return "manual" if kind == "endpoint" and section.get("verify") is None else kind


def _validated(section: Section, model: type[TriggerSpec], *, index: int) -> TriggerSpec | None:
    canonical = str(model.model_fields["type"].default)
    # null is how authors leave out
    given = {field: value for field, value in section.body.items() if value is not None}
    if model is ScheduleSpec:
        _one_cron(section, given)
    if model is WebhookSpec:
        _report_addresses(section, given)
    try:
        return model.model_validate({"name": f"{canonical}-{index}", **given, "type": canonical})
    except ValidationError as error:
        _report(error, section)
        return None


def _one_cron(section: Section, given: dict[str, Any]) -> None:
    written = [field for field in CRON_FIELDS if field in given]
    for second in written[1:]:
        if given[second] != given[written[0]]:
            section.error("bad_trigger", second, f"says something else than {written[0]}; keep one of them")
    values = [given.pop(field) for field in written]
    if values:
        given["cron"] = values[0]


def _report_addresses(section: Section, given: dict[str, Any]) -> None:
    for field in _ADDRESS_FIELDS:
        if field in given:
            del given[field]
            section.ignored(field, "every webhook is a POST to /hooks/APP/WORKFLOW/NAME; leave it out")


def _report(error: ValidationError, section: Section) -> None:
    for each in error.errors(include_url=False, include_input=False):
        place = ".".join(str(part) for part in each["loc"])
        message = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            message = "is not a field of this trigger; check the spelling or leave it out"
        section.error("bad_trigger", place, message)


def _report_without_effect(spec: TriggerSpec, section: Section) -> None:
    if not spec.apps and spec.app_id is None:
        section.warning("inactive_trigger", "", "names no apps, so it starts nothing; add apps: [...]")
    if isinstance(spec, WebhookSpec) and spec.dedupe is not None and spec.verify.scheme == "standard":
        message = "never applies: deliveries of the scheme standard carry an id, and it is used; leave dedupe out"
        section.warning("dedupe_never_applies", "dedupe", message)
