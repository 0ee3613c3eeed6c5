"""Errors between a request and a readable answer, with the server's message.

A status, a lost connection, silence and an unreadable answer are distinguished; all but most 4xx allow another attempt.
No text of ours holds a key: headers are never shown, and a server's message is shortened.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import httpx2
from ag2.events import ModelResponse
from ag2.exceptions import AG2Error

from accounting.infra.retry_after import parse_retry_after
from workflows.chat.chat_errors import ModelError
from workflows.context.values.value_text import shorten

MAX_MESSAGE_CHARACTERS = 300
MAX_BODY_DEPTH = 8  # a body may be nested without end
MAX_RETRY_AFTER_S = 3600.0
_TRANSIENT_STATUSES = frozenset({408, 409, 424, 425, 429})
_TIMEOUT_ERRORS = (TimeoutError, httpx.TimeoutException, httpx2.TimeoutException)
_CONNECTION_ERRORS = (OSError, httpx.TransportError, httpx2.TransportError)
# Raised by libraries for an unexpected answer, such as the page of a proxy. Raised for a request before anything is
# sent, they cost nothing.
_PARSE_ERRORS = (ValueError, TypeError, AttributeError, LookupError, AssertionError, httpx.HTTPError, httpx2.HTTPError)
# Finish reasons by which the provider judges the content: the same question gets the same answer.
_REFUSAL_REASONS = frozenset(
    {
        *("content_filter", "refusal"),
        *("safety", "recitation", "language", "blocklist", "prohibited_content", "spii"),  # Google's
        *("content_filtered", "guardrail_intervened"),  # Bedrock's
    }
)


def status_error(provider: str, status: object, body: Any, headers: Mapping[str, str]) -> ModelError:
    """Makes the error of a status, also of one that followed a good start."""
    status = status if isinstance(status, int) else 0
    message = server_message(body)
    summary = f"{provider} answered {status}" if status >= 400 else f"{provider} broke off its answer"
    return ModelError(
        f"{summary}: {message}" if message else summary,
        transient=is_transient(status),
        retry_after_s=read_retry_after_s(headers, body, now=datetime.now(UTC)),
    )


def is_transient(status: int) -> bool:
    """Decides about retries. Below 400: a good answer that broke off later."""
    return status in _TRANSIENT_STATUSES or status >= 500 or status < 400


def explain_transport(provider: str, error: BaseException) -> ModelError | None:
    """Explains errors that any library may raise; None for other errors."""
    name = type(error).__name__
    if isinstance(error, _TIMEOUT_ERRORS):
        return ModelError(f"{provider} did not answer in time: {name}", transient=True)
    if isinstance(error, _CONNECTION_ERRORS):
        return ModelError(f"the connection to {provider} failed: {name}", transient=True)
    if isinstance(error, _PARSE_ERRORS) and not isinstance(error, AG2Error):
        return unreadable_answer_error(provider, error)
    return None


def unreadable_answer_error(provider: str, error: BaseException) -> ModelError:
    return ModelError(f"the answer of {provider} cannot be read: {type(error).__name__}", transient=True)


def refusal_error(provider: str, answer: ModelResponse) -> ModelError | None:
    reason = str(answer.finish_reason or "").lower()
    if reason not in _REFUSAL_REASONS:
        return None
    return ModelError(f"{provider} refused to answer: {reason}", transient=False)


def truncated_stream_error(provider: str) -> ModelError:
    return ModelError(f"the stream of {provider} ended before the answer was complete", transient=True)


def server_message(body: Any) -> str:
    """Returns the message of an error body in one line; empty for a page."""
    for _ in range(MAX_BODY_DEPTH):
        if isinstance(body, list) and body:
            body = body[0]
        elif isinstance(body, Mapping):
            body = next(
                (body[name] for name in ("error", "message", "Message", "detail", "msg") if body.get(name)), None
            )
    if not isinstance(body, str) or body.lstrip().startswith("<"):
        return ""
    text = " ".join(body[: MAX_MESSAGE_CHARACTERS * 4].split())
    return shorten(text, MAX_MESSAGE_CHARACTERS, counts_mark=True)


def read_retry_after_s(headers: Mapping[str, str], body: Any, *, now: datetime) -> float | None:
    """Reads seconds, a date or Google's field: at most an hour, nothing in the past."""
    text = headers.get("retry-after", "").strip() or _google_delay(body)
    seconds = parse_retry_after(text, now=now)
    return None if seconds is None else min(seconds, MAX_RETRY_AFTER_S)


def _google_delay(body: Any) -> str:
    error = body.get("error", body) if isinstance(body, Mapping) else {}
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping) and isinstance(detail.get("retryDelay"), str):
            return str(detail["retryDelay"]).removesuffix("s")
    return ""
