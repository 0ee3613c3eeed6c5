"""The reader of triggers: resolves the type, then validates the spec."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from workflows.package.findings import Findings
from workflows.package.readers.section import Section
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.spec_problems import list_problems
from workflows.package.trigger_specs.trigger_spec import (
    CHAT_TYPES,
    CRON_FIELDS,
    SPEC_BY_TYPE,
    UNSUPPORTED_TYPES,
    TriggerSpec,
)
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

_ADDRESS_FIELDS = ("endpoint", "path", "method")


def read_triggers(
    entries: Any, *, file: str, findings: Findings, path: str = "", siblings: frozenset[str] = frozenset()
) -> dict[str, TriggerSpec]:
    """Returns triggers by their places, such as triggers[1].

    `entries`: a list, or a mapping with `triggers`.
    """
    is_root = isinstance(entries, Mapping) and not ("type" in entries and "triggers" not in entries)
    body = entries if is_root else {"triggers": entries}
    root = Section(body, file=file, path=path, findings=findings, siblings=siblings)
    specs: dict[str, TriggerSpec] = {}
    for index, entry in enumerate(_read_list(root)):
        section = root.child(entry, f"triggers[{index}]")
        spec = _read_trigger(section, index=index) if isinstance(entry, Mapping) else None
        if spec is None:
            continue
        if any(spec.name == other.name for other in specs.values()):
            section.error("duplicate_trigger", "", f"the name {spec.name} is used twice; rename one")
        specs[section.path] = spec
    return specs


def _read_list(root: Section) -> list[Any]:
    entries = root.get("triggers")
    root.skip_metadata()
    root.report_unread("is not read here; write a list under triggers")
    if entries is None or isinstance(entries, list):
        return entries or []
    root.error("wrong_type", "triggers", "must be a list of triggers, each with a dash before it")
    return []


def _read_trigger(section: Section, *, index: int) -> TriggerSpec | None:
    kind = _read_kind(section)
    if kind in CHAT_TYPES:
        message = f"a {kind} trigger requires a person in the chat; it starts no runs here"
        section.findings.add("info", "not_ours", section.file, section.path, message)
        return None
    if kind in UNSUPPORTED_TYPES:
        section.warning("unsupported_trigger", "", f"{kind} triggers start no runs: {UNSUPPORTED_TYPES[kind]}")
        return None
    model = SPEC_BY_TYPE.get(kind)
    if model is None:
        known = ", ".join(sorted(SPEC_BY_TYPE))
        section.error("unknown_trigger", "type", f"{kind or 'nothing'} is not one of {known}")
        return None
    spec = _validate_spec(section, model, index=index)
    if spec is not None:
        _report_ineffective(spec, section)
    return spec


def _read_kind(section: Section) -> str:
    """Returns the type in lower case. Triggers with `event` or `endpoint` may omit it."""
    word = section.get("type")
    if word is None:
        word = next((field for field in ("event", "endpoint") if section.get(field) is not None), "")
    if not isinstance(word, str):
        return "a value that is not text"
    kind = word.strip().lower()
    # Other runtimes declare a manual start by an address alone; ours verify a signature.
    return "manual" if kind == "endpoint" and section.get("verify") is None else kind


def _validate_spec(section: Section, model: type[TriggerSpec], *, index: int) -> TriggerSpec | None:
    canonical = str(model.model_fields["type"].default)
    # A field with null counts as absent.
    fields = {field: value for field, value in section.body.items() if value is not None}
    cron = _merge_cron_fields(section, fields) if model is ScheduleSpec else "cron"
    if model is WebhookSpec:
        _report_addresses(section, fields)
    try:
        return model.model_validate({"name": f"{canonical}-{index}", **fields, "type": canonical})
    except ValidationError as error:
        _report_validation(error, section, model, cron)
        return None


def _merge_cron_fields(section: Section, fields: dict[str, Any]) -> str:
    """Moves the value of any alias to `cron`, and returns the used alias."""
    aliases = [field for field in CRON_FIELDS if field in fields]
    for second in aliases[1:]:
        if fields[second] != fields[aliases[0]]:
            section.error("bad_trigger", second, f"differs from its alias {aliases[0]}; keep one of them")
    values = [fields.pop(field) for field in aliases]
    if values:
        fields["cron"] = values[0]
    return aliases[0] if aliases else "cron"


def _report_addresses(section: Section, fields: dict[str, Any]) -> None:
    for field in _ADDRESS_FIELDS:
        if field in fields:
            del fields[field]
            section.report_ignored(field, "is not used: the address is always POST /hooks/APP/WORKFLOW/NAME; remove it")


def _report_validation(error: ValidationError, section: Section, model: type[TriggerSpec], cron_field: str) -> None:
    for problem in list_problems(error):
        message = problem.message
        if problem.is_unknown_field:
            near = section.findings.suggest_name(problem.place, model.model_fields.keys() - section.body.keys())
            message = message if near is None else f"is not a field of this trigger; did you mean {near}?"
        section.error("bad_trigger", cron_field if problem.place == "cron" else problem.place, message)


def _report_ineffective(spec: TriggerSpec, section: Section) -> None:
    needs_apps = not isinstance(spec, RunFinishedSpec)  # the ended run has an app
    if needs_apps and not spec.apps and spec.app_id is None:
        section.warning("inactive_trigger", "", "names no apps, so it starts no runs; add apps: [...]")
    if isinstance(spec, WebhookSpec):
        _report_dedupe(spec, section)
        _report_unverified(spec, section)


def _report_dedupe(spec: WebhookSpec, section: Section) -> None:
    scheme = spec.verify.scheme
    if spec.dedupe is not None and scheme in ("standard", "svix"):
        message = f"has no effect: deliveries of the scheme {scheme} have an id, which is used; remove dedupe"
        section.warning("dedupe_never_applies", "dedupe", message)


def _report_unverified(spec: WebhookSpec, section: Section) -> None:
    if spec.verify.scheme == "none":
        advice = "" if spec.verify.even_in_production else "; production requires even_in_production: true for this"
        section.warning("unverified", "verify.scheme", f"any caller that has the address can start runs{advice}")
