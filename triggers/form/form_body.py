"""Form bodies: JSON, urlencoded and multipart as one mapping of fields."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from triggers.gateway.http_problems import ProblemError
from triggers.gateway.request_body import MAX_FIELDS, URLENCODED, is_json_type, parse_json, parse_urlencoded

MULTIPART = "multipart/form-data"
MAX_NAME_SHOWN = 100


@dataclass(frozen=True, slots=True)
class SubmittedFields:
    values: Mapping[str, Any] = field(repr=False)
    from_text: bool
    errors: Mapping[str, str] = field(default_factory=dict)  # of values that no field can take


def is_form_type(media: str) -> bool:
    return is_json_type(media) or media in (URLENCODED, MULTIPART)


async def read_fields(request: Request, kind: str, raw_body: bytes) -> SubmittedFields:
    """Raises 400 or 415 for a body that cannot be read."""
    if kind == URLENCODED:
        return _reject_repeated(parse_urlencoded(raw_body))
    if kind == MULTIPART:
        return _reject_repeated(await _parse_multipart(request, raw_body))
    body = parse_json(raw_body)
    if not isinstance(body, dict):
        raise ProblemError(400, "send a JSON object with a key for each field")
    return SubmittedFields(body, from_text=False)


async def _parse_multipart(request: Request, raw_body: bytes) -> list[tuple[str, str | UploadFile]]:
    _, options = parse_options_header(request.headers["content-type"])
    # Some of Python's codecs take minutes for a megabyte. Browsers send UTF-8 without a charset.
    if options.get(b"charset", b"utf-8").lower() != b"utf-8":
        raise ProblemError(415, "send multipart form data in UTF-8")

    async def whole_body() -> AsyncGenerator[bytes, None]:
        yield raw_body

    parser = MultiPartParser(request.headers, whole_body(), max_files=MAX_FIELDS, max_fields=MAX_FIELDS)
    parser.max_part_size = len(raw_body)  # the body as a whole is already within the limit
    # Nothing is written to disk: files are refused below, and the body is in memory already.
    parser.spool_max_size = len(raw_body) + 1
    try:
        form = await parser.parse()
    except MultiPartException:
        raise ProblemError(400, "the body is not multipart form data") from None
    await form.close()
    return form.multi_items()


def _reject_repeated(pairs: Iterable[tuple[str, str | UploadFile]]) -> SubmittedFields:
    values: dict[str, str] = {}
    errors: dict[str, str] = {}
    for name, value in pairs:
        if isinstance(value, UploadFile):
            errors[name[:MAX_NAME_SHOWN]] = "is a file; this form takes text only"
        elif name in values:
            errors[name[:MAX_NAME_SHOWN]] = "is given more than once"
        else:
            values[name] = value
    return SubmittedFields(values, from_text=True, errors=errors)
