"""Models: aliases to clients, and what an error of a provider's library means."""

from pathlib import Path

import httpx2
import openai
import pytest

from workflows.chat.errors import PackageDefect
from workflows.chat.models import Models, explain_openai_error
from workflows.models_file import OpenAIModel, ScriptModel

REQUEST = httpx2.Request("POST", "http://127.0.0.1:1/v1/chat/completions")


def answered(status: int, **headers: str) -> openai.APIStatusError:
    response = httpx2.Response(status, headers=headers, request=REQUEST)
    return openai.APIStatusError("secret prompt", response=response, body=None)


@pytest.mark.parametrize(
    ("status", "transient"),
    [
        (400, False),
        (401, False),
        (404, False),
        (422, False),
        (408, True),
        (409, True),
        (429, True),
        (500, True),
        (529, True),
    ],
)
def test_a_status_says_whether_to_try_again(status: int, transient: bool) -> None:
    explained = explain_openai_error(answered(status))

    assert explained is not None
    assert (explained.transient, str(explained)) == (transient, f"the model server answered {status}")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None), ("nan", None), ("9" * 400, None)],
)
def test_retry_after_is_honoured_where_it_is_a_number(header: str, seconds: float | None) -> None:
    explained = explain_openai_error(answered(429, **{"retry-after": header}))

    assert explained is not None
    assert explained.retry_after_s == seconds


@pytest.mark.parametrize("error", [openai.APIConnectionError(request=REQUEST), openai.APITimeoutError(request=REQUEST)])
def test_a_server_that_cannot_be_reached_is_worth_another_attempt(error: openai.APIError) -> None:
    explained = explain_openai_error(error)

    assert explained is not None
    assert explained.transient


def test_an_answer_that_cannot_be_read_is_the_models_fault() -> None:
    response = httpx2.Response(200, request=REQUEST)
    explained = explain_openai_error(openai.APIResponseValidationError(response=response, body=None))

    assert explained is not None
    assert explained.transient


def test_another_error_is_not_explained() -> None:
    assert explain_openai_error(ValueError()) is None


def test_a_key_is_resolved_once_and_one_client_serves_all() -> None:
    asked: list[str] = []

    def resolve(reference: str) -> str:
        asked.append(reference)
        return "sk-canary"

    models = Models({"default": OpenAIModel(provider="openai", model="gpt-5-mini", api_key="env:KEY")}, resolve)

    first, second = models.get("default"), models.get("default")

    assert first is second
    assert first.create() is second.copy().create()
    assert asked == ["env:KEY"]
    assert "sk-canary" not in repr(models) + repr(first)
    assert (first.model, str(first.provider)) == ("gpt-5-mini", str(first.provider))


def test_a_script_that_is_not_there_is_a_defect(tmp_path: Path) -> None:
    models = Models({"default": ScriptModel(provider="script", file=tmp_path / "absent.yaml")}, str)

    with pytest.raises(PackageDefect, match=r"absent\.yaml cannot be read"):
        models.get("default")
