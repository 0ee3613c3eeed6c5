"""Usage models: a row for each group of model calls."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from triggers.api.run_models import Usage

UsageKey = Literal["app_id", "workflow", "model", "agent", "provider", "trigger_type", "day", "hour"]


class UsageRow(Usage):
    """Has only the keys by which calls are grouped."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "app_id": "acme",
                    "model": "gpt-5-mini",
                    "calls": 12,
                    "input_tokens": 48210,
                    "cached_input_tokens": 30100,
                    "cache_write_tokens": 0,
                    "output_tokens": 5120,
                    "reasoning_tokens": 1800,
                    "cost_usd": 0.0156,
                    "missing": 0,
                    "estimated": 0,
                    "unpriced": 0,
                }
            ]
        }
    )

    app_id: str | None = None
    workflow: str | None = None
    model: str | None = None
    agent: str | None = None
    provider: str | None = None
    trigger_type: str | None = None
    day: str | None = Field(None, description="In UTC, as 2026-01-31.")
    hour: str | None = Field(None, description="In UTC, as 2026-01-31T08:00Z.")


class UsagePage(BaseModel):
    items: list[UsageRow]
    next: str | None = Field(description="`cursor` for the next page; null on the last one.")
