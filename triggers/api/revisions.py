"""Revisions: the ETag of a trigger, and which revision a caller says it has read."""

import re
from typing import Annotated

from fastapi import Header

from triggers.control.errors import EditedMeanwhileError
from triggers.control.known import TriggerEntry
from triggers.gateway.problems import ProblemError

MAX_ETAG_LENGTH = 100
ANY_REVISION = "*"
_TAG = re.compile(r'"([1-9][0-9]{0,8})"')
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=MAX_ETAG_LENGTH,
        description="The ETag that was read before, or * for whatever is there.",
    ),
]


def format_etag(revision: int) -> str:
    return f'"{revision}"'


def parse_revision(entry: TriggerEntry, if_match: str | None, body_revision: int | None = None) -> int | None:
    """None for whatever is there. What is no ETag of a trigger matches none, as one that is too old does not."""
    if if_match is None or if_match.strip() == ANY_REVISION:
        return body_revision
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None or body_revision not in (None, int(tag[1])):
        raise EditedMeanwhileError(entry.id, revision=0 if entry.record is None else entry.record.revision)
    return int(tag[1])


def require_revision(entry: TriggerEntry, if_match: str | None, body_revision: int | None) -> int | None:
    """Raises 428 where a caller does not say it."""
    if if_match is None and body_revision is None:
        raise ProblemError(428, "say which revision is meant: If-Match with the ETag, or `revision` in the body")
    return parse_revision(entry, if_match, body_revision)
