"""Revisions: the ETag of a trigger, and which revision a caller says it has read."""

import re
from typing import Annotated

from fastapi import Header

from triggers.control.errors import EditedMeanwhileError
from triggers.control.known import Known
from triggers.gateway.problems import ProblemError

MAX_LENGTH = 100
ANY = "*"
_TAG = re.compile(r'"([1-9][0-9]{0,8})"')
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=MAX_LENGTH,
        description="The ETag that was read before, or * for whatever is there.",
    ),
]


def tag_of(revision: int) -> str:
    return f'"{revision}"'


def revision_of(known: Known, if_match: str | None, written: int | None = None) -> int | None:
    """None for whatever is there. What is no ETag of a trigger matches none, as one that is too old does not."""
    if if_match is None or if_match.strip() == ANY:
        return written
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None or written not in (None, int(tag[1])):
        raise EditedMeanwhileError(known.id, revision=0 if known.record is None else known.record.revision)
    return int(tag[1])


def needed_revision(known: Known, if_match: str | None, written: int | None) -> int | None:
    """Raises 428 where a caller does not say it."""
    if if_match is None and written is None:
        raise ProblemError(428, "say which revision is meant: If-Match with the ETag, or `revision` in the body")
    return revision_of(known, if_match, written)
