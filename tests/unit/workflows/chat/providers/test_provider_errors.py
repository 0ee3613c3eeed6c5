"""Failures of model servers: which allow another attempt, when, and their texts."""

from datetime import UTC, datetime
from typing import Any

import httpx2
import openai
import pytest
from ag2.events import ModelResponse
from ag2.exceptions import UnsupportedInputError

from workflows.chat.chat_errors import ModelError
from workflows.chat.providers.openai import PROVIDER
from workflows.chat.providers.provider_errors import (
    MAX_MESSAGE_CHARACTERS,
    MAX_RETRY_AFTER_S,
    explain_transport,
    read_retry_after_s,
    refusal_error,
    server_message,
    status_error,
)

REQUEST = httpx2.Request("POST", "http://127.0.0.1:1/v1/chat/completions")
NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)


def openai_status_error(status: int, body: Any = None, **headers: str) -> openai.APIStatusError:
    response = httpx2.Response(status, headers=headers, request=REQUEST)
    return openai.APIStatusError("Error code: with everything in it", response=response, body=body)


def explain_error(error: Exception) -> ModelError:
    model_error = PROVIDER.explain(error)
    assert model_error is not None
    return model_error


def nested(levels: int) -> Any:
    body: Any = "no such model"
    for _ in range(levels):
        body = {"error": [body]}
    return body


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_refusal_is_final(status: int) -> None:
    error = explain_error(openai_status_error(status))

    assert (error.transient, str(error)) == (False, f"openai answered {status}")


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529, 599])
def test_what_passes_is_worth_another_attempt(status: int) -> None:
    error = explain_error(openai_status_error(status))

    assert (error.transient, str(error)) == (True, f"openai answered {status}")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "no such model", "code": "x"}, "no such model"),
        ({"error": {"message": "no such model"}}, "no such model"),
        ({"error": "no such model"}, "no such model"),
        ({"detail": [{"message": "no such model"}]}, "no such model"),
        ("no  such\n model ", "no such model"),
        ("<html><body>no such model</body></html>", ""),
        ({"message": "<!doctype html>"}, ""),
        ({}, ""),
        (None, ""),
        (5, ""),
        ([], ""),
        (nested(5_000), ""),
        ("x" * 5000, "x" * (MAX_MESSAGE_CHARACTERS - 1) + "…"),
    ],
)
def test_the_servers_words_are_shown_in_one_short_line(body: Any, words: str) -> None:
    assert server_message(body) == words


def test_the_words_follow_provider_and_status() -> None:
    assert str(status_error("ollama", 404, {"error": "model 'm' not found"}, {})) == (
        "ollama answered 404: model 'm' not found"
    )
    assert (
        str(status_error("ollama", -1, {"error": "out of memory"}, {})) == "ollama broke off its answer: out of memory"
    )


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("999999", MAX_RETRY_AFTER_S),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:28:30", 30.0),
        ("Wed, 21 Oct 2026 07:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER_S),
        ("-1", None),
        ("nan", None),
        ("9" * 400, None),
        ("tomorrow", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_bounded(header: str, seconds: float | None) -> None:
    assert read_retry_after_s({"retry-after": header}, None, now=NOW) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"error": {"details": [{"@type": "x"}, {"@type": "RetryInfo", "retryDelay": "34s"}]}}, 34.0),
        ({"error": {"details": [{"retryDelay": "34.07s"}]}}, 34.07),
        ({"error": {"details": [{"retryDelay": 34}, "x"]}}, None),
        ({"error": {"details": {}}}, None),
        ({"error": "x"}, None),
        ("x", None),
    ],
)
def test_google_sends_the_retry_time_in_the_body(body: Any, seconds: float | None) -> None:
    assert read_retry_after_s({}, body, now=NOW) == seconds


def test_the_header_of_an_answer_is_honoured() -> None:
    assert explain_error(openai_status_error(429, **{"retry-after": "7"})).retry_after_s == 7.0


def chain_errors(error: openai.APIError, cause: BaseException) -> openai.APIError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (openai.APITimeoutError(request=REQUEST), "openai did not answer in time: TimeoutError"),
        (openai.APIConnectionError(request=REQUEST), "the connection to openai failed: ConnectionError"),
        (
            chain_errors(openai.APIConnectionError(request=REQUEST), httpx2.ConnectError("secret.internal")),
            "the connection to openai failed: ConnectError",
        ),
        (httpx2.ReadError("x"), "the connection to openai failed: ReadError"),
        (httpx2.ReadTimeout("x"), "openai did not answer in time: ReadTimeout"),
        (
            openai.APIResponseValidationError(response=httpx2.Response(200, request=REQUEST), body=None),
            "the answer of openai cannot be read: APIResponseValidationError",
        ),
        (ValueError("secret"), "the answer of openai cannot be read: ValueError"),
        (AttributeError("'str' has no choices"), "the answer of openai cannot be read: AttributeError"),
    ],
)
def test_what_is_lost_on_the_way_is_worth_another_attempt(error: Exception, said: str) -> None:
    assert (str(explain_error(error)), explain_error(error).transient) == (said, True)


@pytest.mark.parametrize("error", [ZeroDivisionError(), UnsupportedInputError("BinaryInput", "openai")])
def test_another_error_is_not_the_servers(error: Exception) -> None:
    assert PROVIDER.explain(error) is None
    assert explain_transport("gemini", error) is None


@pytest.mark.parametrize("reason", ["content_filter", "refusal", "safety", "SAFETY", "prohibited_content"])
def test_refused_content_is_final(reason: str) -> None:
    error = refusal_error("gemini", ModelResponse(finish_reason=reason))

    assert error is not None
    assert (str(error), error.transient) == (f"gemini refused to answer: {reason.lower()}", False)


@pytest.mark.parametrize("reason", [None, "stop", "length", "tool_calls", "end_turn", "max_tokens"])
def test_other_reasons_to_stop_are_no_refusal(reason: str | None) -> None:
    assert refusal_error("openai", ModelResponse(finish_reason=reason)) is None
