"""What the token counts of each provider mean, as AG2 hands them over, and how they become ours.

Ours: input includes what was read from and written to a cache, output includes reasoning. Bedrock, Mistral and xAI
cannot be chosen in a models file yet; what their numbers mean is settled here with the others.
"""

from collections.abc import Callable, Mapping

from ag2.events import Usage

from accounting.usage import Tokens

MOST = 10**12  # what a server says is stored as it is; more than this is no count of tokens


def with_details_inside(usage: Usage) -> Tokens:
    """OpenAI's meaning: prompt includes cached, completion includes reasoning. Some servers that speak the same count
    reasoning beside the completion; then it is part of the total only."""
    prompt, completion, reasoning = map(_count, (usage.prompt_tokens, usage.completion_tokens, usage.thinking_tokens))
    beside = reasoning and _count(usage.total_tokens) >= prompt + completion + reasoning
    return _tokens(usage, prompt, completion + reasoning if beside else completion)


def with_cache_beside(usage: Usage) -> Tokens:
    """Anthropic's meaning, also on Bedrock: the prompt is what no cache was involved in."""
    cached, written = _count(usage.cache_read_input_tokens), _count(usage.cache_creation_input_tokens)
    return _tokens(usage, _count(usage.prompt_tokens) + cached + written, _count(usage.completion_tokens))


def with_reasoning_beside(usage: Usage) -> Tokens:
    """Gemini's and xAI's meaning: the prompt includes cached, reasoning is beside the completion."""
    output = _count(usage.completion_tokens) + _count(usage.thinking_tokens)
    return _tokens(usage, _count(usage.prompt_tokens), output)


NORMALISE: Mapping[str, Callable[[Usage], Tokens]] = {
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


def _tokens(usage: Usage, input_: int, output: int) -> Tokens:
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
