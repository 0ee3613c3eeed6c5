"""From an empty directory to a schedule of one's own, then each recipe and each migration: by the pages alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from pymongo import MongoClient

from tests.e2e.docs.pages import AFTER_GUIDE, GUIDE
from tests.e2e.docs.reader import ROLES, Reader
from tests.e2e.docs.readers import new_reader
from tests.e2e.product import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def after_guide() -> Iterator[Reader]:
    with new_reader() as reader:
        reader.read_page(GUIDE)
        yield reader


def test_a_schedule_of_ones_own_with_its_bill_its_budget_its_console_and_its_numbers(after_guide: Reader) -> None:
    scheduled = after_guide.unattended("runs", "list", "--trigger", "schedule", "--workflow", "DiskReport")
    (bill,) = after_guide.unattended("usage", "--by", "app,model")
    (budget,) = after_guide.unattended("budgets", "list")

    assert {run["state"] for run in scheduled} == {"succeeded"}
    assert (bill["app_id"], bill["model"], bill["unpriced"], bill["missing"]) == ("home", "qwen3:8b", 0, 0)
    assert bill["cost_usd"] > 0
    assert budget["budget_id"] == "app:home/day/usd"
    assert _page(after_guide, "8400/console").startswith("<!doctype html>")
    until("Prometheus has asked every role", lambda: _scraped(after_guide) == {(role, "up") for role in ROLES})


def _scraped(reader: Reader) -> set[tuple[str, str]]:
    found = json.loads(_page(reader, "9090/api/v1/targets?state=active"))["data"]["activeTargets"]
    return {(each["labels"]["role"], each["health"]) for each in found}


def _page(reader: Reader, address: str) -> str:
    port, _, path = address.partition("/")
    with urlopen(f"http://{reader.replaced[f'127.0.0.1:{port}']}/{path}", timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("page", AFTER_GUIDE, ids=lambda page: page.stem)
def test_a_page_that_goes_on_from_there(after_guide: Reader, page: Path) -> None:
    with after_guide.as_it_is():
        after_guide.read_page(page)


def test_the_issue_was_answered_where_it_stands(after_guide: Reader) -> None:
    """Not by what a recipe's blocks show, but by what its run knows."""
    runs = after_guide.unattended("runs", "list", "--workflow", "IssueTriage", "--trigger", "issue-opened")

    urls = {after_guide.unattended("runs", "show", run["run_id"])["context"]["comment_url"] for run in runs}

    assert urls == {f"{after_guide.replaced['https://api.github.com']}/repos/acme/shop/issues/7/comments#1"}


def test_what_a_listener_leaves_is_taken_over_and_given_back(after_guide: Reader) -> None:
    """What its page rests upon: the changes of a pause come again, and a run has the token of its change."""
    after_guide.unattended("triggers", "pause", "Thanks/paid-order")
    services = json.loads((after_guide.cwd / ".unattended" / "services.json").read_text())
    with MongoClient[dict[str, Any]](services["mongodb_url"]) as client:
        orders = client["shop"]["orders"]
        orders.insert_one({"_id": "left-behind", "app_id": "acme", "status": "paid"})
        until("the change is skipped", lambda: '"reason": "paused"' in json.dumps(_shown(after_guide)))

        after_guide.unattended("triggers", "resume", "Thanks/paid-order", "--from", "5m")

        [run] = until("its run is there", lambda: _runs_of(after_guide, "left-behind"))
        orders.insert_one({"_id": "the-next", "app_id": "acme", "status": "new"})
        with orders.watch(resume_after={"_data": run["trigger"]["id"]}) as listener:
            assert next(listener)["documentKey"] == {"_id": "the-next"}


def _shown(reader: Reader) -> Any:
    return reader.unattended("triggers", "show", "Thanks/paid-order")


def _runs_of(reader: Reader, order_id: str) -> list[Any]:
    """Others may have been paid in these minutes, by the recipe's page."""
    runs = reader.unattended("runs", "list", "--workflow", "Thanks")
    return [run for run in runs if run["input"] == {"order_id": order_id}]
