"""Prices of the models file, as people write them."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# With more digits, the cost of the largest calls would not be exact.
_Amount = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=6)]

# Where pydantic speaks of its own types; by the beginning of its name for what is wrong.
PROBLEM_WORDS: Mapping[str, str] = {
    "model_type": 'write a mapping, such as {model: "gpt-5*", input: 1.25, output: 10}',
    "decimal_max_places": "write USD per million tokens with at most 6 decimal places",
    "decimal": "write USD per million tokens, such as 1.25",
    "int": "write a number of tokens, such as 200000",
    "date": "write a day, such as 2026-12-31",
}


class PriceEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    provider: str = "*"
    model: str = "*"
    input: _Amount
    output: _Amount
    cached_input: _Amount | None = None
    cache_write: _Amount | None = None
    reasoning: _Amount | None = None
    since: date | None = Field(default=None, alias="from")
    above_tokens: int = Field(default=0, ge=0, le=1_000_000_000)
