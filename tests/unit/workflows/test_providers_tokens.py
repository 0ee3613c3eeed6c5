"""Token counts of providers: what each says becomes the same, and nothing that a server says can break the ledger."""

from collections.abc import Callable

import pytest
from ag2.events import Usage

from accounting.usage import Tokens
from workflows.chat.providers.tokens import (
    MOST,
    NORMALISE,
    with_cache_beside,
    with_details_inside,
    with_reasoning_beside,
)


@pytest.mark.parametrize(
    ("provider", "usage", "tokens"),
    [
        (
            "openai",
            Usage(
                prompt_tokens=100.0,
                completion_tokens=20.0,
                total_tokens=120.0,
                cache_read_input_tokens=64,
                thinking_tokens=12,
            ),
            Tokens(input=100, cached_input=64, output=20, reasoning=12),
        ),
        # A server that speaks OpenAI's protocol and counts reasoning beside the completion.
        (
            "openai",
            Usage(prompt_tokens=32, completion_tokens=9, total_tokens=135, thinking_tokens=94),
            Tokens(input=32, output=103, reasoning=94),
        ),
        (
            "openai_responses",
            Usage(prompt_tokens=100, completion_tokens=20, total_tokens=120, thinking_tokens=12),
            Tokens(input=100, output=20, reasoning=12),
        ),
        (
            "anthropic",
            Usage(
                prompt_tokens=28,
                completion_tokens=20,
                total_tokens=48,
                cache_read_input_tokens=64,
                cache_creation_input_tokens=8,
                thinking_tokens=12,
            ),
            Tokens(input=100, cached_input=64, cache_write=8, output=20, reasoning=12),
        ),
        (
            "bedrock",
            Usage(
                prompt_tokens=28,
                completion_tokens=20,
                total_tokens=120,
                cache_read_input_tokens=64,
                cache_creation_input_tokens=8,
            ),
            Tokens(input=100, cached_input=64, cache_write=8, output=20),
        ),
        (
            "gemini",
            Usage(
                prompt_tokens=100,
                completion_tokens=8,
                total_tokens=120,
                cache_read_input_tokens=64,
                thinking_tokens=12,
            ),
            Tokens(input=100, cached_input=64, output=20, reasoning=12),
        ),
        (
            "xai",
            Usage(prompt_tokens=32, completion_tokens=9, total_tokens=135, thinking_tokens=94),
            Tokens(input=32, output=103, reasoning=94),
        ),
        (
            "mistral",
            Usage(prompt_tokens=100, completion_tokens=20, total_tokens=120, cache_read_input_tokens=64),
            Tokens(input=100, cached_input=64, output=20),
        ),
        ("ollama", Usage(prompt_tokens=100, completion_tokens=20, total_tokens=120), Tokens(input=100, output=20)),
        (
            "script",
            Usage(prompt_tokens=120, completion_tokens=8, cache_read_input_tokens=60, cache_creation_input_tokens=5),
            Tokens(input=120, cached_input=60, cache_write=5, output=8),
        ),
    ],
)
def test_each_provider_says_the_same_in_its_own_way(provider: str, usage: Usage, tokens: Tokens) -> None:
    assert NORMALISE[provider](usage) == tokens


def test_no_usage_is_no_tokens() -> None:
    assert {normalise(Usage()) for normalise in NORMALISE.values()} == {Tokens()}


@pytest.mark.parametrize("value", ["12", -5, float("nan"), float("inf"), MOST * 10, [], {}])
def test_what_is_no_count_is_none(value: object) -> None:
    usage = Usage(prompt_tokens=value, completion_tokens=value)  # type: ignore[arg-type]  # servers send anything

    assert {normalise(usage) for normalise in NORMALISE.values()} == {Tokens()}


@pytest.mark.parametrize("normalise", [with_details_inside, with_cache_beside, with_reasoning_beside])
def test_a_part_is_never_more_than_the_whole(normalise: Callable[[Usage], Tokens]) -> None:
    usage = Usage(
        prompt_tokens=1,
        completion_tokens=1,
        cache_read_input_tokens=50,
        cache_creation_input_tokens=50,
        thinking_tokens=50,
    )

    tokens = normalise(usage)

    assert tokens.cached_input + tokens.cache_write <= tokens.input
    assert tokens.reasoning <= tokens.output
