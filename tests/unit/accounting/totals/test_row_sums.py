"""What a row of the ledger adds to totals."""

from datetime import UTC, datetime
from typing import Any

import pytest

from accounting.totals.row_sums import LABELS, TOKENS, additions, key_of, sums_of

ROW: dict[str, Any] = {
    **dict.fromkeys(LABELS, "x"),
    **dict.fromkeys(TOKENS, 0),
    "ok": True,
    "status": "reported",
    "cost_nano_usd": 7,
    "rollup": 2,
}
LOST = {**ROW, "ok": False, "status": "missing", "cost_nano_usd": None}


@pytest.mark.parametrize(
    ("row", "missing", "unpriced"),
    [
        (ROW, 0, 0),
        ({**ROW, "cost_nano_usd": 0}, 0, 0),
        ({**ROW, "cost_nano_usd": None}, 0, 1),
        (LOST, 1, 0),
    ],
    ids=["priced", "free", "without a price", "without an answer"],
)
def test_a_call_is_missing_or_unpriced_and_never_both(row: dict[str, Any], missing: int, unpriced: int) -> None:
    sums = sums_of(row)

    assert (sums["calls"], sums["missing"], sums["unpriced"]) == (1, missing, unpriced)


def test_a_correction_takes_back_the_missing_call_that_was_added() -> None:
    from accounting.ledger.ledger_rows import CORRECTS

    (before, taken_back), (after, added) = additions([{**ROW, "rollup": CORRECTS}])

    assert (before["ok"], taken_back) == (False, {"calls": -1, "missing": -1})
    assert (after["ok"], added["calls"], added["missing"]) == (True, 1, 0)


def test_labels_that_look_alike_have_keys_of_their_own() -> None:
    hour = datetime(2026, 3, 1, 9, tzinfo=UTC)

    assert key_of(["a/b", "c"]) != key_of(["a", "b/c"])
    assert key_of(["a/b"], hour) == "2026-03-01T09Z/a%2Fb"
