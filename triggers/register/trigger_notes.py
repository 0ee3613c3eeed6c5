"""Notes of a trigger: why something that happened started nothing. Equal ones in a row are one, with how often.

In a row means for their app: an app sees no notes of others, so these part none of its own. The same is done twice:
in memory until the notes are written, and by the store with what stands there, which another process may have written.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MAX_NOTES = 20

Note = Mapping[str, Any]


class Notes:
    """The newest ones, the oldest first. `at` may be left to whoever writes them."""

    def __init__(self) -> None:
        self._notes: list[Note] = []

    def __iter__(self) -> Iterator[Note]:
        return iter(self._notes)

    def __len__(self) -> int:
        return len(self._notes)

    def add(self, note: Note) -> None:
        before = self._newest_index(note.get("app_id"))
        if before is not None and _is_same(self._notes[before], note):
            note = _merge_notes(self._notes.pop(before), note)
        self._notes.append(note)
        del self._notes[:-MAX_NOTES]

    def _newest_index(self, app_id: str | None) -> int | None:
        places = range(len(self._notes) - 1, -1, -1)
        return next((place for place in places if self._notes[place].get("app_id") == app_id), None)


def pipeline_with_notes(change: Mapping[str, Mapping[str, Any]], notes: Sequence[Note]) -> Sequence[Mapping[str, Any]]:
    """The same change as a pipeline, which alone can look at the notes that are there."""
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
    times = [each.get("at") for each in (before, note)] + [before.get("first_at")]
    more = {
        "times": before.get("times", 1) + note.get("times", 1),
        "first_at": min((time for time in times if time is not None), default=None),
        "nominal_at": before.get("nominal_at"),
        "until": note.get("until", note.get("nominal_at")),
    }
    return {**before, **note, **{name: value for name, value in more.items() if value is not None}}


def _append_expression(notes: Sequence[Note]) -> Mapping[str, Any]:
    added = {"input": {"$literal": list(notes)}, "initialValue": {"$ifNull": ["$notes", []]}, "in": _WITH_NOTE}
    return {"$slice": [{"$reduce": added}, -MAX_NOTES]}


# What `Notes` does, in the store's words: `$$value` are the notes so far, `$$this` is the next one. A field that is
# not there stays away.
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
