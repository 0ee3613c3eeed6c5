"""Token normalization: converts the token counts of each provider into ours.

Ours: input includes tokens read from and written to a cache, output includes reasoning.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from accounting.usage import Tokens

MAX_TOKENS = 10**9  # more is no count of tokens, and may not fit into the store
CHARACTERS_PER_TOKEN = 4  # of English text: a rule of thumb from OpenAI and Google


class ReportedUsage(Protocol):
    """Usage in the meaning of the provider, as AG2 passes it on. None: not reported."""

    @property
    def prompt_tokens(self) -> float | None: ...
    @property
    def completion_tokens(self) -> float | None: ...
    @property
    def total_tokens(self) -> float | None: ...
    @property
    def cache_read_input_tokens(self) -> float | None: ...
    @property
    def cache_creation_input_tokens(self) -> float | None: ...
    @property
    def thinking_tokens(self) -> float | None: ...


Normalizer = Callable[[ReportedUsage], Tokens]


def normalize_openai(usage: ReportedUsage) -> Tokens:
    """Converts usage of OpenAI: prompt includes cached tokens, completion reasoning.

    Some compatible servers report reasoning beside the completion; then only the total includes it.
    """
    prompt, completion, reasoning, total = _counts(usage)
    is_reasoning_beside = reasoning and total >= prompt + completion + reasoning
    return _tokens(usage, prompt, completion + reasoning if is_reasoning_beside else completion)


def normalize_anthropic(usage: ReportedUsage) -> Tokens:
    """Converts usage of Anthropic, also on Bedrock: the prompt excludes cached tokens."""
    prompt, completion, _, _ = _counts(usage)
    cached, written = _valid_count(usage.cache_read_input_tokens), _valid_count(usage.cache_creation_input_tokens)
    return _tokens(usage, prompt + cached + written, completion)


def normalize_gemini(usage: ReportedUsage) -> Tokens:
    """Converts usage of Gemini: prompt includes cached tokens, completion no reasoning."""
    prompt, completion, reasoning, _ = _counts(usage)
    return _tokens(usage, prompt, completion + reasoning)


def normalize_xai(usage: ReportedUsage) -> Tokens:
    """Converts usage of xAI, which counts like Gemini.

    A gateway in front of it may include reasoning in the completion; the total shows it.
    """
    prompt, completion, reasoning, total = _counts(usage)
    is_reasoning_inside = 0 < total < prompt + completion + reasoning
    return _tokens(usage, prompt, completion if is_reasoning_inside else completion + reasoning)


NORMALIZERS: Mapping[str, Normalizer] = {
    "anthropic": normalize_anthropic,
    "bedrock": normalize_anthropic,
    "gemini": normalize_gemini,
    "mistral": normalize_openai,
    "ollama": normalize_openai,
    "openai": normalize_openai,
    "openai_responses": normalize_openai,
    "script": normalize_openai,
    "xai": normalize_xai,
}


def estimate_tokens(prompt_characters: int, answer_characters: int) -> Tokens:
    """Estimates an answer without usage.

    At least one token each way, so that it is never free.
    """
    return Tokens(input=_tokens_for_characters(prompt_characters), output=_tokens_for_characters(answer_characters))


def _counts(usage: ReportedUsage) -> tuple[int, int, int, int]:
    """Returns prompt, completion, reasoning and total in the meaning of the provider."""
    return (
        _valid_count(usage.prompt_tokens),
        _valid_count(usage.completion_tokens),
        _valid_count(usage.thinking_tokens),
        _valid_count(usage.total_tokens),
    )


def _tokens_for_characters(characters: int) -> int:
    return max(-(-characters // CHARACTERS_PER_TOKEN), 1)


def _tokens(usage: ReportedUsage, input_: int, output: int) -> Tokens:
    """Caps each part at its whole, since a server may report more.

    Prices would make the rest negative.
    """
    cached = min(_valid_count(usage.cache_read_input_tokens), input_)
    return Tokens(
        input=input_,
        cached_input=cached,
        cache_write=min(_valid_count(usage.cache_creation_input_tokens), input_ - cached),
        output=output,
        reasoning=min(_valid_count(usage.thinking_tokens), output),
    )


def _valid_count(value: object) -> int:
    """Returns a usable count.

    Libraries pass on what a server sent: text, negative or not a number.
    """
    if not isinstance(value, int | float) or not 0 < value <= MAX_TOKENS:
        return 0
    return int(value)
