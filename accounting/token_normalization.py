"""What the token counts of each provider mean, and how they become ours.

Ours: input includes what was read from and written to a cache, output includes reasoning.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from accounting.usage import Tokens

MAX_TOKENS = 10**9  # what a server says is stored as it is; more than this is no count of tokens, and may have no room
CHARACTERS_PER_TOKEN = 4  # of English text, by the rule of thumb that OpenAI and Google give


class ReportedUsage(Protocol):
    """What a call used in the provider's own meaning, as AG2 hands it over: None where nothing was said."""

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
    """OpenAI's meaning: prompt includes what a cache was involved in, completion includes reasoning. Some servers that
    speak the same count reasoning beside the completion; then it is part of the total only."""
    prompt, completion, reasoning, total = _counts(usage)
    beside = reasoning and total >= prompt + completion + reasoning
    return _tokens(usage, prompt, completion + reasoning if beside else completion)


def normalize_anthropic(usage: ReportedUsage) -> Tokens:
    """Anthropic's meaning, also on Bedrock: the prompt is what no cache was involved in."""
    prompt, completion, _, _ = _counts(usage)
    cached, written = _valid_count(usage.cache_read_input_tokens), _valid_count(usage.cache_creation_input_tokens)
    return _tokens(usage, prompt + cached + written, completion)


def normalize_gemini(usage: ReportedUsage) -> Tokens:
    """Gemini's meaning: the prompt includes cached, reasoning is beside the completion."""
    prompt, completion, reasoning, _ = _counts(usage)
    return _tokens(usage, prompt, completion + reasoning)


def normalize_xai(usage: ReportedUsage) -> Tokens:
    """xAI's meaning: Gemini's. A gateway in front of it may have moved reasoning inside, which the total shows."""
    prompt, completion, reasoning, total = _counts(usage)
    inside = 0 < total < prompt + completion + reasoning
    return _tokens(usage, prompt, completion if inside else completion + reasoning)


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
    """For an answer that came without usage. At least one token each way: it was asked and answered, so not free."""
    return Tokens(input=_tokens_for_characters(prompt_characters), output=_tokens_for_characters(answer_characters))


def _counts(usage: ReportedUsage) -> tuple[int, int, int, int]:
    """Prompt, completion, reasoning and the total of them, as the provider means them."""
    return (
        _valid_count(usage.prompt_tokens),
        _valid_count(usage.completion_tokens),
        _valid_count(usage.thinking_tokens),
        _valid_count(usage.total_tokens),
    )


def _tokens_for_characters(characters: int) -> int:
    return max(-(-characters // CHARACTERS_PER_TOKEN), 1)


def _tokens(usage: ReportedUsage, input_: int, output: int) -> Tokens:
    """A part is never more than the whole, whatever a server says: prices would make the rest negative."""
    cached = min(_valid_count(usage.cache_read_input_tokens), input_)
    return Tokens(
        input=input_,
        cached_input=cached,
        cache_write=min(_valid_count(usage.cache_creation_input_tokens), input_ - cached),
        output=output,
        reasoning=min(_valid_count(usage.thinking_tokens), output),
    )


def _valid_count(value: object) -> int:
    """The libraries check nothing: what a server sent arrives here, be it text, negative or not a number."""
    if not isinstance(value, int | float) or not 0 < value <= MAX_TOKENS:
        return 0
    return int(value)
