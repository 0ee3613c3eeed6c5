"""Usage of one model call: the values that go into the ledger."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

NANO_PER_USD = 1_000_000_000

UsageStatus = Literal["reported", "missing", "estimated"]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts in one meaning for all providers.

    Input includes cached and cache writes, output includes reasoning.
    """

    input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class BegunCall:
    """A model call that is being made.

    After `within_s` it has an answer or has failed; None means unknown.
    """

    number: int
    agent: str
    provider: str
    model: str
    started_at: datetime
    within_s: float | None = None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A finished model call, with or without an answer."""

    number: int
    agent: str
    provider: str
    model: str
    tokens: Tokens
    status: UsageStatus
    ok: bool
    started_at: datetime
    duration_s: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RunOwner:
    """The labels of a run that every ledger row of it carries."""

    run_id: str
    app_id: str
    user_id: str | None
    chat_id: str
    workflow: str
    trigger_type: str


@dataclass(frozen=True, slots=True)
class UsageTotals:
    calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_nano_usd: int = 0
    missing: int = 0
    estimated: int = 0
    unpriced: int = 0
    key: dict[str, Any] = field(default_factory=dict)

    @property
    def cost_usd(self) -> float | None:
        """The cost of the priced calls.

        None: calls were answered and none of them has a price.
        """
        answered = self.calls - self.missing
        return None if answered and self.unpriced == answered else self.cost_nano_usd / NANO_PER_USD

    def as_json(self) -> dict[str, Any]:
        return {
            **self.key,
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "cached_input_tokens": self.cached_input_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "output_tokens": self.output_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "cost_usd": self.cost_usd,
            "missing": self.missing,
            "estimated": self.estimated,
            "unpriced": self.unpriced,
        }
