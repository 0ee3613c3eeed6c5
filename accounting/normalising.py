"""What the token counts of each provider mean, and how they become ours.

Ours: input includes what was read from and written to a cache, output includes reasoning.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from accounting.usage import Tokens

MOST = 10**12  # what a server says is stored as it is; more than this is no count of tokens
CHARACTERS_PER_TOKEN = 4  # of English text, by the rule of thumb that OpenAI and Google give


class Reported(Protocol):
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


Normalise = Callable[[Reported], Tokens]


def with_details_inside(usage: Reported) -> Tokens:
    """OpenAI's meaning: prompt includes cached, completion includes reasoning. Some servers that speak the same count
    reasoning beside the completion; then it is part of the total only."""
    prompt, completion, reasoning = map(_count, (usage.prompt_tokens, usage.completion_tokens, usage.thinking_tokens))
    beside = reasoning and _count(usage.total_tokens) >= prompt + completion + reasoning
    return _tokens(usage, prompt, completion + reasoning if beside else completion)


def with_cache_beside(usage: Reported) -> Tokens:
    """Anthropic's meaning, also on Bedrock: the prompt is what no cache was involved in."""
    cached, written = _count(usage.cache_read_input_tokens), _count(usage.cache_creation_input_tokens)
    return _tokens(usage, _count(usage.prompt_tokens) + cached + written, _count(usage.completion_tokens))


def with_reasoning_beside(usage: Reported) -> Tokens:
    """Gemini's and xAI's meaning: the prompt includes cached, reasoning is beside the completion."""
    output = _count(usage.completion_tokens) + _count(usage.thinking_tokens)
    return _tokens(usage, _count(usage.prompt_tokens), output)


NORMALISE: Mapping[str, Normalise] = {
    "anthropic": with_cache_beside,
    "bedrock": with_cache_beside,
    "gemini": with_reasoning_beside,
    "mistral": with_details_inside,
    "ollama": with_details_inside,
    "openai": with_details_inside,
    "openai_responses": with_details_inside,
    "script": with_details_inside,
    "xai": with_reasoning_beside,
}


def estimated(prompt_characters: int, answer_characters: int) -> Tokens:
    """For an answer that came without usage. At least one token each way: it was asked and answered, so not free."""
    return Tokens(input=_tokens_of(prompt_characters), output=_tokens_of(answer_characters))


def _tokens_of(characters: int) -> int:
    return max(-(-characters // CHARACTERS_PER_TOKEN), 1)


def _tokens(usage: Reported, input_: int, output: int) -> Tokens:
    """A part is never more than the whole, whatever a server says: prices would make the rest negative."""
    cached = min(_count(usage.cache_read_input_tokens), input_)
    return Tokens(
        input=input_,
        cached_input=cached,
        cache_write=min(_count(usage.cache_creation_input_tokens), input_ - cached),
        output=output,
        reasoning=min(_count(usage.thinking_tokens), output),
    )


def _count(value: object) -> int:
    """The libraries check nothing: what a server sent arrives here, be it text, negative or not a number."""
    if not isinstance(value, int | float) or not 0 < value <= MOST:
        return 0
    return int(value)
