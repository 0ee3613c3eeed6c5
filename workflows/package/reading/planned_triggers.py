"""What the format names for triggers and nothing executes yet: no typo, so the package is read without the trigger."""

from collections.abc import Callable, Mapping
from typing import Any

from workflows.package.trigger_specs import (
    ChangeSpec,
    RunFinishedSpec,
    ScheduleSpec,
    TriggerSpec,
    WebhookSpec,
    parse_duration,
)

Given = dict[str, Any]
Take = Callable[[Given], bool]
Model = type[TriggerSpec] | type[RunFinishedSpec]

_SCHEMES = ("stripe", "slack", "svix", "hmac", "bearer", "none")
_INSTEAD = {
    "type": ("starting a run after another one is", "let what starts that one start both"),
    "apps": ("reading the apps from a collection is", "list them"),
    "overlap": ("this way to overlap is", "write skip or allow"),
    "jitter": ("spreading runs in time is", "leave it out"),
    "collection": ("watching a whole database is", "name a collection"),
    "pipeline": ("a pipeline is", "say in `when` which events count"),
    "ordering": ("keeping events in order is", "leave it out: runs of one document may overlap"),
    "debounce": ("waiting for further events is", "leave it out"),
    "verify.scheme": ("this scheme is", "use standard or github"),
}
_APPS_FIELDS = frozenset({"database", "collection", "field", "filter"})


def take_planned(model: Model, given: Given) -> dict[str, str]:
    """The fields that make the trigger inactive, and what to say of each. `given` is left as if they were not there,
    so that the rest is checked as ever; what is no value of such a field stays in it, and is an error."""
    fields = {**_BY_MODEL.get(model, {}), "apps": _apps_of_a_collection}
    return {field: _message(*_INSTEAD[field]) for field, take in fields.items() if take(given)}


def _message(what: str, instead: str) -> str:
    return f"{what} not executed yet, so this trigger starts nothing; {instead}"


def _one_of(field: str, *words: str, same: str | None = None) -> Take:
    """`same` is the word for what is done anyway."""

    def take(given: Given) -> bool:
        word = given.get(field)
        if not isinstance(word, str) or word not in (*words, same):
            return False
        del given[field]
        return word != same

    return take


def _duration(field: str) -> Take:
    """None at all is what is done anyway."""

    def take(given: Given) -> bool:
        try:
            duration = parse_duration(given[field])
        except (KeyError, ValueError):
            return False
        del given[field]
        return bool(duration)

    return take


def _pipeline(given: Given) -> bool:
    if not isinstance(given.get("pipeline"), list):
        return False
    return bool(given.pop("pipeline"))


def _whole_database(given: Given) -> bool:
    if "collection" in given:
        return False
    given["collection"] = "any"
    return True


def _scheme(given: Given) -> bool:
    """Each scheme has fields of its own; that a secret is a reference holds for all."""
    verify = given.get("verify")
    if not isinstance(verify, Mapping) or verify.get("scheme") not in _SCHEMES:
        return False
    given["verify"] = {"scheme": "standard", "secret": verify.get("secret") or "env:NONE"}
    return True


def _apps_of_a_collection(given: Given) -> bool:
    apps = given.get("apps")
    if not isinstance(apps, Mapping) or "collection" not in apps or not _APPS_FIELDS.issuperset(apps):
        return False
    del given["apps"]
    return True


_BY_MODEL: Mapping[Model, Mapping[str, Take]] = {
    ScheduleSpec: {"overlap": _one_of("overlap", "buffer_one", "cancel_previous"), "jitter": _duration("jitter")},
    ChangeSpec: {
        "collection": _whole_database,
        "pipeline": _pipeline,
        "ordering": _one_of("ordering", "per_document", "strict", same="none"),
        "debounce": _duration("debounce"),
    },
    WebhookSpec: {"verify.scheme": _scheme},
    RunFinishedSpec: {"type": lambda _: True},
}
