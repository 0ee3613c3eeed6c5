"""Token normalization: the same meaning for all providers, whatever a server sends."""

import pytest
from ag2.events import Usage
from hypothesis import given
from hypothesis import strategies as st

from accounting.token_normalization import MAX_TOKENS, NORMALIZERS, estimate_tokens
from accounting.usage import Tokens


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
        # From GPT-5.6 on the API also reports cache writes.
        (
            "openai",
            Usage(prompt_tokens=2006, completion_tokens=300, total_tokens=2306, cache_creation_input_tokens=1920),
            Tokens(input=2006, cache_write=1920, output=300),
        ),
        # An OpenAI-compatible server that reports reasoning beside the completion.
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
        # As the library of xAI reports it, without a total.
        (
            "xai",
            Usage(prompt_tokens=32, completion_tokens=9, thinking_tokens=94, cache_read_input_tokens=6),
            Tokens(input=32, cached_input=6, output=103, reasoning=94),
        ),
        # As a gateway in front of xAI reports it, in the meaning of OpenAI.
        (
            "xai",
            Usage(prompt_tokens=686, completion_tokens=123, total_tokens=809, thinking_tokens=112),
            Tokens(input=686, output=123, reasoning=112),
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
def test_each_provider_reports_the_same_in_its_own_way(provider: str, usage: Usage, tokens: Tokens) -> None:
    assert NORMALIZERS[provider](usage) == tokens


def test_no_usage_is_no_tokens() -> None:
    assert {normalise(Usage()) for normalise in NORMALIZERS.values()} == {Tokens()}


@pytest.mark.parametrize("value", ["12", -5, float("nan"), float("inf"), MAX_TOKENS * 10, [], {}])
def test_what_is_no_count_is_none(value: object) -> None:
    usage = Usage(prompt_tokens=value, completion_tokens=value)  # type: ignore[arg-type]  # servers send anything

    assert {normalise(usage) for normalise in NORMALIZERS.values()} == {Tokens()}


anything = st.one_of(
    st.none(), st.integers(-5, MAX_TOKENS * 2), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=1)
)


@given(st.builds(Usage, anything, anything, anything, anything, anything, anything))  # servers send anything
def test_a_part_is_never_more_than_the_whole(usage: Usage) -> None:
    for normalise in NORMALIZERS.values():
        tokens = normalise(usage)

        assert min(tokens.cached_input, tokens.cache_write, tokens.reasoning) >= 0
        assert tokens.cached_input + tokens.cache_write <= tokens.input <= 3 * MAX_TOKENS
        assert tokens.reasoning <= tokens.output <= 2 * MAX_TOKENS


@pytest.mark.parametrize(
    ("sent", "answered", "tokens"),
    [(0, 1, Tokens(1, output=1)), (8, 9, Tokens(2, output=3)), (4001, 4, Tokens(1001, output=1))],
)
def test_an_estimate_is_a_token_for_four_characters_and_never_nothing(sent: int, answered: int, tokens: Tokens) -> None:
    assert estimate_tokens(sent, answered) == tokens
