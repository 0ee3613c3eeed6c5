"""Words around the numbers of `unattended usage`: what is shown, and what the sums do not know."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ops.cli.runs.lines import format_utc
from ops.cli.usage.ordering import Bill

if TYPE_CHECKING:
    from accounting.totals.reading import UsageFilter
    from accounting.usage import UsageTotals


def usage_title(bill: Bill, usage_filter: "UsageFilter", *, chart: bool) -> str:
    since, until = format_utc(usage_filter.since), format_utc(usage_filter.until)
    span = f"since {since}" if since else "all time"
    if until:
        span = f"{since} to {until}" if since else f"until {until}"
    bars = f"; bars are {'USD' if bill.is_by_cost else 'tokens'}" if chart else ""
    return f"Usage by {' and '.join(bill.names)}, {span}{bars}"


def usage_warnings(total: "UsageTotals") -> Iterator[str]:
    """What a reader must know to believe the sums, and what to do about it."""
    if total.unpriced:
        yield (
            f"{_calls_text(total.unpriced)} no price, so no USD in the sums:"
            " `unattended usage --by provider,model` shows whose; add it to the models file"
        )
    if total.missing:
        yield (
            f"{_calls_text(total.missing)} no usage, so no tokens in the sums (failed, stopped, or not reported):"
            " `unattended usage --by model,agent` shows whose"
        )
    if total.estimated:
        yield f"{_calls_text(total.estimated)} estimated usage, as no usage was reported"


def _calls_text(number: int) -> str:
    return "1 call has" if number == 1 else f"{number:,} calls have"
