"""Bodies of external answers: read within a bound after decoding, free of the secret that asked for them."""

import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from accounting.infra.strict_json import parse_strict_json
from workflows.context.reads.missing_values import NoValueError

MAX_BODY_BYTES = 1024 * 1024
_TOO_LARGE_REASON = f"its answer is larger than {MAX_BODY_BYTES // 1024} KB"


async def read_body(chunks: AsyncIterator[bytes], *, encoding: str) -> bytes:
    """A few compressed bytes may stand for gigabytes: no more is unpacked than is accepted."""
    if encoding not in ("", "identity", "gzip", "deflate"):
        raise NoValueError(f"its answer is encoded as {encoding[:20]!r}, which is not read")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in ("gzip", "deflate") else None
    body = bytearray()
    try:
        async for chunk in chunks:
            body += chunk if unpacker is None else unpacker.decompress(chunk, MAX_BODY_BYTES + 1 - len(body))
            if len(body) > MAX_BODY_BYTES:
                raise NoValueError(_TOO_LARGE_REASON)
            if unpacker is not None and unpacker.eof:
                break  # whatever follows would only pile up
    except zlib.error:
        raise NoValueError("its answer is not encoded as it says") from None
    if unpacker is not None and not unpacker.eof:
        raise NoValueError("its answer ends too early", is_transient=True)
    return bytes(body)


def decode_body(body: bytes, headers: Mapping[str, str]) -> Any:
    """JSON where the answer says so, else text."""
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    if kind.strip() == "application/json" or kind.strip().endswith("+json"):
        try:
            return parse_strict_json(body)
        except (ValueError, RecursionError):
            raise NoValueError("its answer says it is JSON, and is not") from None
    latin = "iso-8859-1" in parameters or "windows-1252" in parameters
    return body.decode("windows-1252" if latin else "utf-8", errors="replace")


def refuse_echo(body: bytes, value: Any, secrets: Collection[str]) -> None:
    """An answer that quotes the request's secret would carry it into prompts and the store."""
    if any(each.encode() in body for each in secrets) or _contains_secret(value, secrets):
        raise NoValueError("its answer holds the secret that it was asked with")


def _contains_secret(value: Any, secrets: Collection[str]) -> bool:
    """Also where JSON writes the secret's characters in another way."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if any(each in item for each in secrets):
                return True
        elif isinstance(item, Mapping):
            waiting.extend([*item.keys(), *item.values()])
        elif isinstance(item, list):
            waiting.extend(item)
    return False
