"""Sections: raw mappings of a package file, read field by field.

Findings name the place of a field.
"""

from collections.abc import Collection, Mapping
from typing import Any

from workflows.package.files.package_files import METADATA_FIELDS
from workflows.package.findings import Findings

MAX_NUMBER = 1e9  # the largest value of any limit; also rejects infinity and NaN

_TRUE_WORDS = {"true", "yes", "1", "on"}
_FALSE_WORDS = {"false", "no", "0", "off"}


class Section:
    """Records the fields that were read.

    `report_unread()` reports the others.
    """

    def __init__(
        self, body: Any, *, file: str, path: str, findings: Findings, siblings: Collection[str] = frozenset()
    ) -> None:
        """`siblings`: fields beside `path` in the file, not inside it."""
        self.file = file
        self.path = path
        self.findings = findings
        self.body: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
        self._read_fields: set[str] = set()
        self._siblings = siblings
        if not isinstance(body, Mapping):
            self.error("wrong_type", "", f"must be a mapping, not {_type_name(body)}")

    def error(self, code: str, field: str, message: str) -> None:
        self.findings.add("error", code, self.file, self.path_of(field), message)

    def warning(self, code: str, field: str, message: str) -> None:
        self.findings.add("warning", code, self.file, self.path_of(field), message)

    def info(self, code: str, field: str, message: str) -> None:
        self.findings.add("info", code, self.file, self.path_of(field), message)

    def report_ignored(self, field: str, why: str) -> None:
        self.findings.add_ignored(self.file, self.path_of(field), why)

    def report_blocking(self, code: str, field: str, message: str) -> None:
        self.findings.add_blocking(code, self.file, self.path_of(field), message)

    def child(self, body: Any, field: str) -> "Section":
        """Returns a part of this section by its place: `source`, `transitions[2]`."""
        return Section(body, file=self.file, path=self.path_of(field), findings=self.findings)

    def path_of(self, field: str) -> str:
        if self._siblings and field.partition(".")[0].partition("[")[0] in self._siblings:
            return field
        return ".".join(part for part in (self.path, field) if part)

    def get(self, *names: str) -> Any:
        """Returns the value of the first of these aliases that is present and not null."""
        self._read_fields.update(names)
        return next((self.body[name] for name in names if self.body.get(name) is not None), None)

    def skip_metadata(self, *names: str) -> None:
        """Marks metadata fields and the given ones as read without effect."""
        self.get(*METADATA_FIELDS, *names)

    def text(self, *names: str) -> str | None:
        value: str | None = self._get_typed(names, str, "text")
        return value

    def required_text(self, *names: str) -> str:
        value = self.text(*names)
        if value is None or not value.strip():
            self.error("missing_field", names[0], f"is required; write {names[0]}: …")
            return ""
        return value.strip()

    def integer(self, *names: str, default: int, minimum: int = 1) -> int:
        value = self._get_typed(names, int, "a whole number")
        if value is None:
            return default
        if isinstance(value, bool) or not minimum <= value <= MAX_NUMBER:
            self.error("wrong_value", names[0], f"must be a whole number from {minimum} to {MAX_NUMBER:,.0f}")
            return default
        return int(value)

    def number(self, *names: str, default: float) -> float:
        value = self.get(*names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_NUMBER:
            self.error("wrong_value", names[0], f"must be a number above 0, at most {MAX_NUMBER:,.0f}")
            return default
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        value = self.get(*names)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        word = str(value).strip().lower()
        if word in _TRUE_WORDS | _FALSE_WORDS:
            return word in _TRUE_WORDS
        self.error("wrong_value", names[0], "must be true or false")
        return default

    def mapping(self, *names: str) -> Mapping[str, Any]:
        return self._get_typed(names, Mapping, "a mapping") or {}

    def sequence(self, *names: str) -> list[Any]:
        return self._get_typed(names, list, "a list") or []

    def report_unread(self, why: str = "is not executed; check the spelling, or remove it") -> None:
        for name in self.unread_fields():
            # YAML keys may be other values than text: `on` is true
            self.report_ignored(str(name), self._with_hint(str(name), why))

    def unread_fields(self) -> list[Any]:
        """Returns the names of fields that have a value and were not read."""
        return [name for name, value in self.body.items() if name not in self._read_fields and not _is_empty(value)]

    def _with_hint(self, name: str, why: str) -> str:
        near = self.findings.suggest_name(name, (known for known in self._read_fields if known not in self.body))
        return why if near is None else f"{why.partition(';')[0]}; did you mean {near}?"

    def _get_typed(self, names: tuple[str, ...], kind: type[Any], expected: str) -> Any:
        value = self.get(*names)
        if value is None or isinstance(value, kind):
            return value
        self.error("wrong_type", names[0], f"must be {expected}, not {_type_name(value)}")
        return None


def _is_empty(value: Any) -> bool:
    """Returns whether a value is empty.

    Generators write every field: `ui: {component: null, mode: null}`.
    """
    if isinstance(value, Mapping):
        return all(item is None for item in value.values())
    return value in (None, [], "", False)


def _type_name(value: Any) -> str:
    names = {"dict": "a mapping", "list": "a list", "str": "text", "int": "a number", "float": "a number"}
    return names.get(type(value).__name__, "a value of type " + type(value).__name__)
