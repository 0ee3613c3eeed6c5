"""The ledger in memory, for runs that have no store: the same rows, kept for as long as this object lives."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from accounting.ledger.ledger import EarlierCalls
from accounting.ledger.ledger_rows import NON_MODEL_ERRORS, OPEN, Row, closed_row, open_row
from accounting.prices import PriceTable
from accounting.totals.row_sums import SUMMED, sums_of
from accounting.usage import BegunCall, ModelCall, RunOwner, UsageTotals


class MemoryLedger:
    """`calls` has the model calls of all runs, in the order in which they ended."""

    def __init__(self, prices: PriceTable | None = None) -> None:
        self.calls: list[ModelCall] = []
        self._prices = prices or PriceTable()
        self._rows: dict[str, Row] = {}

    async def begin(self, owner: RunOwner, *, lease_token: int, call: BegunCall) -> None:
        row = open_row(owner, lease_token=lease_token, call=call, holder="")
        self._rows.setdefault(row["_id"], row)

    async def record(self, owner: RunOwner, *, lease_token: int, call: ModelCall, holder: str | None = None) -> None:
        row = closed_row(owner, lease_token=lease_token, call=call, holder=holder or "", prices=self._prices)
        if self._rows.get(row["_id"], {"rollup": OPEN})["rollup"] == OPEN:  # completing a row twice changes nothing
            self._rows[row["_id"]] = row
            self.calls.append(call)

    async def read_earlier_calls(self, run_id: str) -> EarlierCalls:
        rows = list(self._rows_of(run_id))
        failed = Counter(row["agent"] for row in rows if not row["ok"] and row["error"] not in NON_MODEL_ERRORS)
        return EarlierCalls(
            count=len(rows),
            tokens=sum(row["input_tokens"] + row["output_tokens"] for row in rows),
            cost_nano_usd=sum(row["cost_nano_usd"] or 0 for row in rows),
            failed_by_agent={row["agent"]: failed[row["agent"]] for row in rows},
        )

    async def totals(self, run_id: str) -> UsageTotals:
        """Sums up a run. A row that is still open counts as a lost call."""
        sums = [sums_of(row) for row in self._rows_of(run_id)]
        totals: dict[str, Any] = {name: sum(row[name] for row in sums) for name in SUMMED}
        return UsageTotals(**totals)

    def _rows_of(self, run_id: str) -> Iterator[Row]:
        return (row for row in self._rows.values() if row["run_id"] == run_id)
