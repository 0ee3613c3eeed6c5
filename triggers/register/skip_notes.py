"""Trigger notes: why an event started no run.

Equal notes in a row become one with a count.

"In a row" is per app, since an app sees only its own notes. Notes are merged twice: in memory until they are written,
and by the store with the notes that are there, which another process may have written.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MAX_NOTES = 20

Note = Mapping[str, Any]


class Notes:
    """The newest notes, oldest first. The writer may add `at`."""

    def __init__(self) -> None:
        self._notes: list[Note] = []

    def __iter__(self) -> Iterator[Note]:
        return iter(self._notes)

    def __len__(self) -> int:
        return len(self._notes)

    def add(self, note: Note) -> None:
        index = self._newest_index(note.get("app_id"))
        if index is not None and _is_same(self._notes[index], note):
            note = _merge_notes(self._notes.pop(index), note)
        self._notes.append(note)
        del self._notes[:-MAX_NOTES]

    def _newest_index(self, app_id: str | None) -> int | None:
        indexes = range(len(self._notes) - 1, -1, -1)
        return next((index for index in indexes if self._notes[index].get("app_id") == app_id), None)


def pipeline_with_notes(change: Mapping[str, Mapping[str, Any]], notes: Sequence[Note]) -> Sequence[Mapping[str, Any]]:
    """Turns an update into a pipeline, which alone can read stored notes."""
    changed: dict[str, Any] = {
        **{field: {"$literal": value} for field, value in change.get("$set", {}).items()},
        **{
            field: {"$ifNull": [f"${field}", {"$literal": value}]}
            for field, value in change.get("$setOnInsert", {}).items()
        },
        **{field: {"$add": [{"$ifNull": [f"${field}", 0]}, by]} for field, by in change.get("$inc", {}).items()},
        **{field: {"$max": [f"${field}", value]} for field, value in change.get("$max", {}).items()},
    }
    unset = [{"$unset": list(change["$unset"])}] if "$unset" in change else []
    return [{"$set": {**changed, "notes": _append_expression(notes)}}, *unset]


def _is_same(before: Note, note: Note) -> bool:
    return all(before.get(field) == note.get(field) for field in ("reason", "detail"))


def _merge_notes(before: Note, note: Note) -> Note:
    times = [before.get("at"), note.get("at"), before.get("first_at")]
    merged_fields = {
        "times": before.get("times", 1) + note.get("times", 1),
        "first_at": min((time for time in times if time is not None), default=None),
        "nominal_at": before.get("nominal_at"),
        "until": note.get("until", note.get("nominal_at")),
    }
    return {**before, **note, **{name: value for name, value in merged_fields.items() if value is not None}}


def _append_expression(notes: Sequence[Note]) -> Mapping[str, Any]:
    added = {"input": {"$literal": list(notes)}, "initialValue": {"$ifNull": ["$notes", []]}, "in": _WITH_NOTE}
    return {"$slice": [{"$reduce": added}, -MAX_NOTES]}


# `Notes.add` as an aggregation: `$$value` are the notes so far, `$$this` is the next one. Missing fields stay missing.
_SAME_APP_NOTES = {"input": "$$value", "as": "each", "cond": {"$eq": ["$$each.app_id", "$$this.app_id"]}}
_OTHER_NOTES = {"input": "$$value", "as": "each", "cond": {"$ne": ["$$each", "$$before"]}}
_MERGED_NOTE = {
    "$mergeObjects": [
        "$$before",
        "$$this",
        {
            "times": {"$add": [{"$ifNull": ["$$before.times", 1]}, {"$ifNull": ["$$this.times", 1]}]},
            "first_at": {"$min": ["$$before.first_at", "$$before.at", "$$this.first_at", "$$this.at"]},
            "nominal_at": "$$before.nominal_at",
            "until": {"$ifNull": ["$$this.until", "$$this.nominal_at"]},
        },
    ]
}
_WITH_NOTE = {
    "$let": {
        "vars": {"before": {"$last": {"$filter": _SAME_APP_NOTES}}},
        "in": {
            "$cond": [
                {"$and": [{"$eq": [f"$$before.{field}", f"$$this.{field}"]} for field in ("reason", "detail")]},
                {"$concatArrays": [{"$filter": _OTHER_NOTES}, [_MERGED_NOTE]]},
                {"$concatArrays": ["$$value", ["$$this"]]},
            ]
        },
    }
}
