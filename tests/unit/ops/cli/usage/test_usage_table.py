"""`unattended usage`: the order of its rows, its bars, and its fit to a terminal."""

import re

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from accounting.usage import UsageTotals
from ops.cli.output import Terminal
from ops.cli.usage.usage_command import usage
from ops.cli.usage.usage_report import Sort, UsageReport, make_usage_report, sum_totals
from ops.cli.usage.usage_table import usage_table_lines, usage_warnings
from ops.presenters.amounts import (
    draw_bar,
    format_exact_usd,
    format_percent,
    format_short_count,
    format_usd,
    usd_decimals,
)

USD = 10**9
WIDE = Terminal(width=200, has_colours=False, has_unicode=True)


def usage_row(cost: float, tokens: int = 0, *, unpriced: int = 0, missing: int = 0, **key: str) -> UsageTotals:
    calls = unpriced + missing + (1 if cost else 0)
    return UsageTotals(
        calls=calls, input_tokens=tokens, cost_nano_usd=round(cost * USD), unpriced=unpriced, missing=missing, key=key
    )


APPS = [
    usage_row(2, 10, app_id="b"),
    usage_row(7, 5, app_id="c"),
    usage_row(0, 99, unpriced=1, app_id="a"),
    usage_row(2, 30, app_id="d"),
]
DAYS = [usage_row(cost, day=f"2026-01-0{day}") for day, cost in ((3, 1), (1, 9), (2, 5))]


def usage_lines(bill: UsageReport, terminal: Terminal = WIDE, *, chart: bool = True) -> list[str]:
    return [*usage_table_lines(bill, terminal, chart=chart)]


@pytest.mark.parametrize(
    ("sort", "order"), [(None, "cdba"), ("cost", "cdba"), ("tokens", "adbc"), ("name", "abcd")], ids=str
)
def test_names_come_by_cost_then_tokens_unless_configured_otherwise(sort: Sort | None, order: str) -> None:
    assert "".join(row.key["app_id"] for row in make_usage_report(APPS, ["app"], sort=sort, limit=None).rows) == order


def test_days_come_one_after_another_and_a_limit_keeps_the_newest() -> None:
    in_order = make_usage_report(DAYS, ["day"], sort=None, limit=2)
    by_cost = make_usage_report(DAYS, ["day"], sort="cost", limit=2)

    assert [row.key["day"][-1] for row in in_order.rows] == ["2", "3"]
    assert [row.key["day"][-1] for row in by_cost.rows] == ["1", "2"]


def test_groups_inside_of_groups_stay_together_the_dearest_first() -> None:
    rows = [
        usage_row(cost, app_id=key[0], model=key[1]) for key, cost in (("ax", 1), ("bx", 2), ("ay", 3), ("by", 0.5))
    ]

    found = make_usage_report(rows, ["app", "model"], sort=None, limit=None).rows

    assert [row.key["app_id"] + row.key["model"] for row in found] == ["ay", "ax", "bx", "by"]


def test_what_a_limit_cuts_off_is_one_line_and_the_total_is_of_all() -> None:
    lines = usage_lines(make_usage_report(APPS, ["app"], sort=None, limit=1))

    assert [line.split()[0] for line in lines] == ["app", "c", "…", "total"]
    assert lines[2].split()[:3] == ["…", "3", "more"]
    assert lines[-1].split()[-1] == "11.00+"


def test_bars_measure_usd_and_tokens_where_no_price_is_known() -> None:
    by_cost = usage_lines(make_usage_report(APPS, ["app"], sort=None, limit=None))
    unpriced = [usage_row(0, tokens, unpriced=1, app_id=str(tokens)) for tokens in (100, 50)]
    by_tokens = usage_lines(make_usage_report(unpriced, ["app"], sort=None, limit=None))

    assert [line.count("█") for line in by_cost[1:5]] == [40, 11, 11, 0]
    assert [line.count("█") for line in by_tokens[1:3]] == [40, 20]
    assert "unknown" in by_tokens[1]
    assert "█" not in by_tokens[-1]


def test_an_unknown_cost_is_no_share_of_the_known_one() -> None:
    rows = [usage_row(3, app_id="a"), usage_row(0, unpriced=1, app_id="b")]

    lines = usage_lines(make_usage_report(rows, ["app"], sort=None, limit=None))

    assert [line.split()[5:] for line in lines[1:3]] == [["3.0000", "100", "%", "█" * 40], ["unknown"]]


def test_a_price_that_is_known_for_some_calls_is_marked_as_not_all() -> None:
    rows = [usage_row(3, unpriced=1, app_id="a"), usage_row(2, app_id="b")]

    lines = usage_lines(make_usage_report(rows, ["app"], sort=None, limit=None), chart=False)

    assert [line.split()[-1] for line in lines[1:]] == ["3.0000+", "2.0000", "5.0000+"]
    assert {line.index(".") for line in lines[1:]} == {lines[1].index(".")}


def many() -> UsageReport:
    names = ["umbrella-eu-production-tenant-0042", "日本語のアプリ", "we\x1b[31mird"]
    rows = [
        UsageTotals(
            calls=1234 * number,
            input_tokens=98_765_432 * number,
            cached_input_tokens=5_432_100,
            cache_write_tokens=3,
            output_tokens=1_234_567,
            reasoning_tokens=99,
            cost_nano_usd=1_234_567 * USD * number,
            missing=17,
            estimated=2,
            unpriced=1,
            key={"app_id": name, "model": f"gpt-{number}"},
        )
        for number, name in enumerate(names, 1)
    ]
    return make_usage_report(rows, ["app", "model"], sort=None, limit=None)


@pytest.mark.parametrize("width", [60, 80, 120, 300])
@pytest.mark.parametrize("unicode", [True, False])
def test_every_line_fits_its_terminal_and_has_its_bar(width: int, unicode: bool) -> None:
    lines = usage_lines(many(), Terminal(width, has_colours=False, has_unicode=unicode))

    assert all(cell_len(line) <= width for line in lines)
    assert all(line.endswith(tuple("▏▎▍▌▋▊▉█" if unicode else "#.")) for line in lines[1:-1])
    assert unicode or not re.search("[█…▏]", "".join(lines))
    assert "\x1b" not in "".join(lines)
    assert ("98,765,432" in "".join(lines)) == (width == 300)
    assert {"input", "output", "USD"} <= set(lines[0].split())


def test_colours_are_for_terminals_that_want_them() -> None:
    coloured = "\n".join(usage_lines(many(), Terminal(80, has_colours=True, has_unicode=True)))

    assert re.sub(r"\x1b\[\d*m", "", coloured) == "\n".join(
        usage_lines(many(), Terminal(80, has_colours=False, has_unicode=True))
    )
    assert "\x1b[1m" in coloured


@pytest.mark.parametrize(
    ("share", "blocks", "ascii_"),
    [(0, "", ""), (0.0001, "▏", "."), (0.5, "████", "####"), (0.45, "███▋", "####"), (1, "████████", "########")],
)
def test_a_bar_is_true_to_the_eighth_and_shows_what_is_little(share: float, blocks: str, ascii_: str) -> None:
    assert (draw_bar(share, 8, unicode=True), draw_bar(share, 8, unicode=False)) == (blocks, ascii_)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, "0 %"), (0.001, "<1 %"), (0.005, "<1 %"), (0.42, "42 %"), (0.999, ">99 %"), (1, "100 %")],
)
def test_a_share_is_neither_nothing_nor_all_when_it_is_not(share: float, expected: str) -> None:
    assert format_percent(share) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0"), (9_999, "9,999"), (12_345, "12.3k"), (999_999, "1.00M"), (1_800_000, "1.80M"), (123_456_789, "123M")],
)
def test_short_numbers_have_three_digits_and_a_unit(number: int, expected: str) -> None:
    assert format_short_count(number) == expected


def test_usd_keep_their_cents_and_never_round_to_nothing() -> None:
    assert [format_usd(amount, usd_decimals([1234.5])) for amount in (1234.5, 0.001, 0, None)] == [
        "1,234.50",
        "<0.01",
        "0.00",
        "unknown",
    ]
    assert format_usd(0.000123, usd_decimals([0.000123])) == "0.000123"
    assert [format_exact_usd(amount) for amount in (1234.5, 5e-8, 0.0, None)] == [
        "1234.500000",
        "0.000000050",
        "0.000000",
        "unknown",
    ]


def test_a_sum_is_of_every_field() -> None:
    parts = [UsageTotals(*range(1, 11)), UsageTotals(*range(10, 101, 10))]

    assert sum_totals(parts) == UsageTotals(*range(11, 111, 11))


def test_gaps_of_the_sums_are_reported_with_their_remedy() -> None:
    expected = [*usage_warnings(UsageTotals(calls=2_000, missing=1, estimated=3, unpriced=1_600))]

    assert expected[0].startswith(
        "1,600 calls have no price, so the sums lack their USD:"
        " find the models with `unattended usage --by provider,model`"
    )
    assert expected[1].startswith(
        "1 call has no usage (failed, stopped, or not reported), so the sums lack their tokens"
    )
    assert expected[2].startswith("3 calls have estimated usage")
    assert [*usage_warnings(UsageTotals(calls=5))] == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--by fortnight", "'fortnight' is none of app, workflow, model, agent, provider, trigger, day, hour"),
        ("--by app,model,day,hour", "4 keys are too many"),
        ("--by ,", "'' is none of app"),
        ("--since yesterday", "write a date such as 2026-01-31"),
        ("--since 0001-01-01T00:00:00+14:00", "write a date such as 2026-01-31"),
        ("--since 2d --until 3d", "--since must be before --until"),
        ("--limit 0", "Invalid value for '--limit'"),
        ("--sort size", "Invalid value for '--sort'"),
        ("--json --csv", "use --json or --csv, not both"),
        ("--verify --app acme", "may stand beside"),
        ("--verify --rebuild", "may stand beside"),
        ("--rebuild --by day", "may stand beside"),
    ],
)
def test_a_mistake_is_reported_before_any_server_is_contacted(arguments: str, expected: str) -> None:
    done = CliRunner().invoke(usage, arguments.split())

    assert (done.exit_code, expected in done.output) == (2, True), done.output
