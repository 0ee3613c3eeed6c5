"""What goes wrong between a request and a readable answer, in the words of the server where it has some.

A status, a lost connection, silence and an answer that cannot be read are told apart; all but most 4xx are worth
another attempt. No text of ours holds a key: headers are never shown, and a server's words are cut short.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import httpx2
from ag2.events import ModelResponse
from ag2.exceptions import AG2Error

from accounting.infra.retry_after import parse_retry_after as asked_s
from workflows.chat.chat_errors import ModelError

MAX_MESSAGE_CHARACTERS = 300
MAX_BODY_DEPTH = 8  # a body may be nested without end
MAX_RETRY_AFTER_S = 3600.0
_TRANSIENT_STATUSES = frozenset({408, 409, 424, 425, 429})
_TIMEOUT_ERRORS = (TimeoutError, httpx.TimeoutException, httpx2.TimeoutException)
_CONNECTION_ERRORS = (OSError, httpx.TransportError, httpx2.TransportError)
# What the libraries raise of an answer that is not what they expect, such as the page of a proxy. Raised of a request,
# before anything is sent, they cost nothing.
_PARSE_ERRORS = (ValueError, TypeError, AttributeError, LookupError, AssertionError, httpx.HTTPError, httpx2.HTTPError)
# Reasons to stop that are the provider's judgement of the content: the same question gets the same answer.
_REFUSAL_REASONS = frozenset(
    {
        *("content_filter", "refusal"),
        *("safety", "recitation", "language", "blocklist", "prohibited_content", "spii"),  # Google's
        *("content_filtered", "guardrail_intervened"),  # Bedrock's
    }
)


def status_error(provider: str, status: object, body: Any, headers: Mapping[str, str]) -> ModelError:
    """A status, or an error in the middle of an answer that began with a good one."""
    status = status if isinstance(status, int) else 0
    words = server_message(body)
    said = f"{provider} answered {status}" if status >= 400 else f"{provider} broke off its answer"
    return ModelError(
        f"{said}: {words}" if words else said,
        transient=is_transient(status),
        retry_after_s=read_retry_after_s(headers, body, now=datetime.now(UTC)),
    )


def is_transient(status: int) -> bool:
    """Below 400: a good answer that brought an error later."""
    return status in _TRANSIENT_STATUSES or status >= 500 or status < 400


def explain_transport(provider: str, error: BaseException) -> ModelError | None:
    """What every library lets through in some place: None for what is none of it."""
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
    return ModelError(f"the stream of {provider} ended before its answer did", transient=True)


def server_message(body: Any) -> str:
    """The message in an error's body, in one line; nothing of a body that is not the API's own, such as a page."""
    for _ in range(MAX_BODY_DEPTH):
        if isinstance(body, list) and body:
            body = body[0]
        elif isinstance(body, Mapping):
            body = next(
                (body[name] for name in ("error", "message", "Message", "detail", "msg") if body.get(name)), None
            )
    if not isinstance(body, str) or body.lstrip().startswith("<"):
        return ""
    words = " ".join(body[: MAX_MESSAGE_CHARACTERS * 4].split())
    return words if len(words) <= MAX_MESSAGE_CHARACTERS else f"{words[: MAX_MESSAGE_CHARACTERS - 1]}…"


def read_retry_after_s(headers: Mapping[str, str], body: Any, *, now: datetime) -> float | None:
    """Seconds, or a date, or the field of Google's errors; never more than an hour, and nothing that is over."""
    said = headers.get("retry-after", "").strip() or _google_delay(body)
    seconds = asked_s(said, now=now)
    return None if seconds is None else min(seconds, MAX_RETRY_AFTER_S)


def _google_delay(body: Any) -> str:
    error = body.get("error", body) if isinstance(body, Mapping) else {}
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping) and isinstance(detail.get("retryDelay"), str):
            return str(detail["retryDelay"]).removesuffix("s")
    return ""
