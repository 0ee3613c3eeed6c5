"""Bodies of external answers: bounded when decoded, free of the request's secret."""

import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from accounting.infra.strict_json import parse_strict_json
from workflows.context.reads.missing_values import NoValueError

MAX_BODY_BYTES = 1024 * 1024
_TOO_LARGE_REASON = f"its answer is larger than {MAX_BODY_BYTES // 1024} KB"


async def read_body(chunks: AsyncIterator[bytes], *, encoding: str) -> bytes:
    """Reads a body within the limit: a few compressed bytes may hold gigabytes."""
    if encoding not in ("", "identity", "gzip", "deflate"):
        raise NoValueError(f"its answer is encoded as {encoding[:20]!r}, which is not supported")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in ("gzip", "deflate") else None
    body = bytearray()
    try:
        async for chunk in chunks:
            body += chunk if unpacker is None else unpacker.decompress(chunk, MAX_BODY_BYTES + 1 - len(body))
            if len(body) > MAX_BODY_BYTES:
                raise NoValueError(_TOO_LARGE_REASON)
            if unpacker is not None and unpacker.eof:
                break  # further data would only use memory
    except zlib.error:
        raise NoValueError("its answer does not have the declared encoding") from None
    if unpacker is not None and not unpacker.eof:
        raise NoValueError("its answer ends too early", is_transient=True)
    return bytes(body)


def decode_body(body: bytes, headers: Mapping[str, str]) -> Any:
    """Parses JSON if the content type says so; otherwise returns text."""
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    if kind.strip() == "application/json" or kind.strip().endswith("+json"):
        try:
            return parse_strict_json(body)
        except (ValueError, RecursionError):
            raise NoValueError("its answer says it is JSON, and is not") from None
    latin = "iso-8859-1" in parameters or "windows-1252" in parameters
    return body.decode("windows-1252" if latin else "utf-8", errors="replace")


def refuse_echo(body: bytes, value: Any, secrets: Collection[str]) -> None:
    """Refuses an answer that holds the request's secret, before a prompt or store."""
    if any(secret.encode() in body for secret in secrets) or _contains_secret(value, secrets):
        raise NoValueError("its answer holds the secret of the request")


def _contains_secret(value: Any, secrets: Collection[str]) -> bool:
    """Finds a secret also where JSON writes its characters in another way."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if any(secret in item for secret in secrets):
                return True
        elif isinstance(item, Mapping):
            waiting.extend([*item.keys(), *item.values()])
        elif isinstance(item, list):
            waiting.extend(item)
    return False
