"""Pure parts of the console: query parameters, forms, charts, the runbook, and texts of actions."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from starlette.datastructures import QueryParams
from starlette.requests import Request

from accounting.budgets.budget import parse_budget
from accounting.budgets.budget_status import BudgetStatus
from accounting.usage import UsageTotals
from ops.console import budget_rows, query_params
from ops.console.allowed_run_actions import possible_run_actions
from ops.console.console_context import check_origin
from ops.console.login import safe_console_path
from ops.console.runbook_page import RUNBOOK_FILE, render_markdown
from ops.console.sessions import Session
from ops.console.template_filters import badge_html, format_seconds, format_usd_amount, moment_html, preview_html
from ops.console.usage_chart import HEIGHT, draw_chart
from tests.unit.docs.test_docs import slug
from triggers.api.caller_access import Caller
from triggers.api_keys import ApiKey
from triggers.gateway.http_problems import ProblemError
from workers.store.run import RunState


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/console/runs?state=failed&app_id=a%20b", "/console/runs?state=failed&app_id=a%20b"),
        ("/console", "/console"),
        ("//evil.example", "/console"),
        ("https://evil.example/console", "/console"),
        ("/console.evil", "/console"),
        ("/console\\@evil", "/console"),
        ("/console/runs\r\nset-cookie: x=1", "/console"),
        ("/console/logout", "/console"),
        ("/console/actions", "/console"),
        ("javascript:alert(1)", "/console"),
        ("", "/console"),
    ],
)
def test_a_login_leads_to_a_page_of_the_console(text: str, place: str) -> None:
    assert safe_console_path(text) == place


@pytest.mark.parametrize(
    ("origin", "is_ours"),
    [
        ("http://ops.example", True),
        ("https://OPS.example", True),
        ("http://ops.example:8400", False),
        ("http://evil.example", False),
        ("http://ops.example.evil.example", False),
        ("null", False),
        ("file://ops.example", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_only_a_page_of_the_same_host_may_send_a_form(origin: str, is_ours: bool) -> None:
    headers = [(b"host", b"ops.example"), (b"origin", origin.encode())]
    request = Request({"type": "http", "method": "POST", "path": "/console", "headers": headers})

    if is_ours:
        check_origin(request)
    else:
        with pytest.raises(ProblemError, match="not sent from the console"):
            check_origin(request)


def test_a_forms_token_is_of_one_session_and_reveals_no_cookie() -> None:
    one, other = Session("a" * 43, "hash"), Session("b" * 43, "hash")

    assert one.is_own_form(one.form_token)
    assert not one.is_own_form(other.form_token)
    assert not one.is_own_form("")
    assert not one.is_own_form("\udcff")
    assert one.token not in one.form_token
    assert "a" * 43 not in repr(one)
    now = datetime.now(UTC)
    assert Session("a", "h", now + timedelta(seconds=1)).can_act(now)
    assert not Session("a", "h", now).can_act(now)


@pytest.mark.parametrize("state", [*RunState])
def test_each_state_has_its_actions(state: RunState) -> None:
    names = {
        RunState.QUEUED: ["cancel"],
        RunState.RUNNING: ["cancel"],
        RunState.PARKED: ["replay", "discard"],
        RunState.NEEDS_HUMAN: ["answer", "discard"],
    }

    assert [order.name for order in possible_run_actions({"state": state})] == names.get(state, ["replay"])


def test_a_state_of_a_newer_version_is_shown_and_has_no_actions() -> None:
    assert possible_run_actions({"state": "compensating"}) == []
    assert "compensating" in badge_html("compensating")


def test_only_a_run_that_waits_for_its_time_is_retried_now() -> None:
    waiting = {"state": "queued", "not_before": datetime.now(UTC), "hold": None}

    assert [order.name for order in possible_run_actions(waiting)] == ["retry-now", "cancel"]
    assert [order.name for order in possible_run_actions({**waiting, "hold": "budget"})] == ["cancel"]


def test_addresses_keep_an_apps_name_whatever_it_is() -> None:
    assert query_params.trigger_path("Sales/lead@a%2Fb") == "/console/triggers/Sales/lead%40a%252Fb"
    assert query_params.trigger_path("Sales/lead", app_id="a&b") == "/console/triggers/Sales/lead?app_id=a%26b"
    assert query_params.run_path("../x?y") == "/console/runs/..%2Fx%3Fy"


def test_the_address_of_a_page_leads_to_it_again() -> None:
    path, query = "/console/triggers/Sales/lead@a%2Fb", b"app_id=a%26b"
    request = Request({"type": "http", "method": "GET", "path": path, "query_string": query, "headers": []})

    assert query_params.current_path(request) == "/console/triggers/Sales/lead%40a%252Fb?app_id=a%26b"


async def test_the_order_of_shared_budgets_reveals_no_amounts_to_one_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """One app sees neither shares nor, by the order, which of two shared budgets is fuller."""
    now = datetime.now(UTC)
    shared = {
        unit: BudgetStatus(
            parse_budget(workflow="Digest", window="day", unit=unit, limit=100), None, now, now, spent=spent
        )
        for unit, spent in (("tokens", 0), ("usd", 90 * 10**9))
    }
    own = BudgetStatus(parse_budget(app_id="acme", window="day", unit="tokens", limit=100), "acme", now, now, spent=85)

    async def as_they_stand(*_: object) -> list[BudgetStatus]:
        return [*shared.values(), own]

    monkeypatch.setattr(budget_rows, "read_statuses", as_they_stand)
    rows = {
        app_id: await budget_rows.budget_rows(cast(Any, None), Caller(ApiKey("key_1", "shop", app_id, now)))
        for app_id in (None, "acme")
    }

    shown = {app_id: [(row["app_id"], row["unit"], row["kind"]) for row in rows[app_id]] for app_id in rows}
    assert shown[None] == [(None, "usd", "warn"), ("acme", "tokens", "warn"), (None, "tokens", "good")]
    assert shown["acme"] == [("acme", "tokens", "warn"), (None, "tokens", "good"), (None, "usd", "good")]


def test_times_are_asked_for_as_ages_or_dates() -> None:
    assert query_params.moment_param(QueryParams("since=2026-01-31"), "since") == datetime(2026, 1, 31, tzinfo=UTC)
    assert query_params.moment_param(QueryParams("since="), "since") is None
    with pytest.raises(ProblemError, match="since: write a date"):
        query_params.moment_param(QueryParams("since=soon"), "since")


def test_a_chart_stacks_the_largest_parts_and_one_of_the_rest() -> None:
    rows = [
        UsageTotals(cost_nano_usd=(9 - place) * 10**9, key={"day": "2026-01-01", "model": f"m{place}"})
        for place in range(8)
    ]
    rows.append(UsageTotals(cost_nano_usd=10**9, key={"day": "2026-01-03", "model": "m0"}))

    chart = draw_chart(rows, ["2026-01-01", "2026-01-02", "2026-01-03"], "day", "model")

    assert chart.parts == ("m0", "m1", "m2", "m3", "m4", "others")
    assert (chart.measure, chart.top, chart.total) == ("USD", "44.00", "45.00")
    first, nothing, last = chart.columns
    assert [piece.part for piece in first.pieces] == [0, 1, 2, 3, 4, 5]
    assert sum(piece.height for piece in first.pieces) == pytest.approx(HEIGHT, abs=0.1)
    assert (nothing.pieces, nothing.total) == ((), "0.00")
    assert [(piece.part, piece.y + piece.height) for piece in last.pieces] == [(0, HEIGHT)]


def test_without_prices_a_chart_counts_tokens() -> None:
    row = UsageTotals(input_tokens=12_000, output_tokens=345, key={"hour": "2026-01-01T08:00Z"})

    chart = draw_chart([row], ["2026-01-01T08:00Z"], "hour", None)

    assert (chart.measure, chart.total, chart.parts) == ("tokens", "12.3k", ())
    assert chart.columns[0].label == "08:00"


def test_the_runbooks_anchors_are_those_that_links_name() -> None:
    markdown = RUNBOOK_FILE.read_text(encoding="utf-8")

    html, headings = render_markdown(markdown)

    assert len(headings) == len({heading.slug for heading in headings}) > 5
    assert {slug(heading.text) for heading in headings} <= {heading.slug for heading in headings}
    assert all(f'id="{heading.slug}"' in html for heading in headings)
    assert "&lt;!--" not in html


def test_a_runbook_runs_nothing_and_links_to_no_file_that_is_not_served() -> None:
    html, headings = render_markdown(
        "# Same\n# Same\n[a](../docs/x.md) [b](#same) <img src=x onerror=alert(1)> ![c](x.png) [d](javascript:x)"
    )

    assert [heading.slug for heading in headings] == ["same", "same-1"]
    assert '<a href="#same">b</a>' in html
    assert html.count("<a ") == 1
    assert "<img" not in html


def test_words_and_amounts() -> None:
    assert [format_seconds(value) for value in (None, 0.0123, 5.25, 90)] == ["", "12 ms", "5.2 s", "1.5 min"]
    assert [format_usd_amount(value) for value in (None, 0.0, 0.0004, 0.02, 3.5)] == [
        "unknown",
        "0.00",
        "0.000400",
        "0.0200",
        "3.50",
    ]
    assert moment_html(None) == ""
    assert badge_html("needs_human", "<b>") == '<span class="badge warn">needs human (&lt;b&gt;)</span>'
    assert "<script>" not in preview_html("<script>")
    assert "(5,000 characters)" in preview_html("x" * 5000)
    assert len(preview_html("line\n" * 1000)) < 500
