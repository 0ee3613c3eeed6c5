"""Every shell block of every page is run as a reader would run it, or has a reason against it.

All pages share one product, started after the blocks that precede the start on each page.
"""

import itertools
import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from pymongo import MongoClient

from tests.e2e.docs.guide_prometheus import assert_roles_are_found_again, files_of_up, scrape_every_second
from tests.e2e.docs.pages import (
    AFTER_GUIDE,
    GUIDE,
    MARKS,
    PAGES,
    README,
    SHELLS,
    STARTING,
    around_start,
    blocks_of,
    shell_blocks,
)
from tests.e2e.docs.reader import READS_S, Reader, new_reader
from tests.e2e.product import wait_until
from tests.unit.docs.test_docs import ROOT
from tests.unit.ops.test_run_guide import write_guide
from workflows.package.catalog import LIBRARY

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

REFERENCE = [page for page in PAGES if page not in (README, GUIDE, *AFTER_GUIDE) and shell_blocks(page)]
AUTHORING = {ROOT / "docs" / name for name in ("package-format.md", "testing-packages.md")}
REGION = '{"region": "eu"}'


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with new_reader() as one:
        checkout = one.cwd
        one.read_to_start(README)
        [turn, *_] = one.unattended("run", "Morning", "--app", "acme", "--input", REGION)["turns"]
        assert turn  # from the README's models file, which the guide's replaces
        write_guide(one.cwd.parent / "authoring")
        shutil.copytree(LIBRARY / "OrderFollowUp", one.cwd / "workflows" / "OrderFollowUp")
        one.cwd = checkout
        for page in STARTING[1:]:
            one.read_to_start(page)
        one.start()
        yield one


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_block_is_run_or_has_a_reason_why_not(page: Path) -> None:
    assert bool(around_start(page)[0]) == (page in STARTING), "a page that starts the product is in STARTING"
    for block in blocks_of(page):
        looks_typed = re.search(r"^(\$ |unattended |make |docker |curl )", block.text, re.MULTILINE)
        assert block.language in SHELLS or not looks_typed, f"{block.place}: say bash, so that it is run"
        if block.language in SHELLS:
            assert {name for name, _ in block.marks} <= set(MARKS), f"{block.place}: see tests/e2e/docs/pages.py"
        reason = block.mark("not-run")
        assert reason is None or len(reason) > 10, f"{block.place}: say why it is not run"


def test_the_readme(reader: Reader) -> None:
    """Check the text between the blocks: a run is started, and is listed."""
    reader.restore_state(README)
    reader.read_on(README)

    run = reader.unattended("enqueue", "Morning", "--app", "acme", "--input", REGION)

    wait_until("its run has succeeded", lambda: _state(reader, run["run_id"]) == "succeeded", every_s=READS_S)


def _state(reader: Reader, run_id: str) -> str:
    return str(reader.unattended("runs", "show", run_id)["state"])


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page(reader: Reader, page: Path) -> None:
    reader.restore_state(README)
    if page in AUTHORING:
        reader.cwd = reader.cwd.parent / "authoring"
    reader.read_on(page)


def test_a_schedule_of_ones_own_with_bill_budget_console_and_numbers(reader: Reader) -> None:
    reader.restore_state(GUIDE)
    scrape_every_second(reader)
    reader.read_on(GUIDE)

    scheduled = reader.unattended("runs", "list", "--trigger", "schedule", "--workflow", "DiskReport")
    (bill,) = reader.unattended("usage", "--by", "app,model", "--app", "home")
    budgets = {each["budget_id"] for each in reader.unattended("budgets", "list")}

    assert {run["state"] for run in scheduled} == {"succeeded"}
    assert (bill["app_id"], bill["model"], bill["unpriced"], bill["missing"]) == ("home", "qwen3:8b", 0, 0)
    assert bill["cost_usd"] > 0
    assert "app:home/day/usd" in budgets
    with urlopen(f"http://{reader.replaced['127.0.0.1:8400']}/console", timeout=10) as console:
        assert console.read().startswith(b"<!doctype html>")


@pytest.mark.parametrize("page", AFTER_GUIDE, ids=lambda page: page.stem)
def test_a_page_that_goes_on_from_there(reader: Reader, page: Path) -> None:
    reader.restore_state(GUIDE if page not in STARTING else page)
    if page.stem == "cron-digest":
        shutil.rmtree(reader.cwd / "workflows" / "Morning")  # the README's
    reader.read_on(page)


def test_each_recipe_had_a_run_of_its_own_trigger(reader: Reader) -> None:
    for trigger in ("weekdays", "paid-order", "ask-for-an-offer", "issue-opened"):
        listed = partial(reader.unattended, "runs", "list", "--trigger", trigger, "--state", "succeeded")
        wait_until(f"a run of {trigger} has succeeded", listed, every_s=READS_S)


def test_the_issue_was_answered_where_it_stands(reader: Reader) -> None:
    """Check the stored run rather than the output of the recipe's blocks."""
    runs = reader.unattended("runs", "list", "--workflow", "IssueTriage", "--trigger", "issue-opened")

    urls = {reader.unattended("runs", "show", run["run_id"])["context"]["comment_url"] for run in runs}

    assert urls == {f"{reader.replaced['https://api.github.com']}/repos/acme/shop/issues/7/comments#1"}


def test_what_a_listener_leaves_is_taken_over_and_given_back(reader: Reader) -> None:
    """The page's claim: changes during a pause are delivered again, and a run has its change's token."""
    reader.unattended("triggers", "pause", "Thanks/paid-order")
    services = json.loads((reader.cwd / ".unattended" / "services.json").read_text())
    with MongoClient[dict[str, Any]](services["mongodb_url"]) as client:
        orders, probes = client["shop"]["orders"], itertools.count()

        def is_skipped() -> bool:
            """The watcher sees a pause a moment later; until then a paid order starts a run."""
            orders.insert_one({"_id": f"probe-{next(probes)}", "app_id": "acme", "status": "paid"})
            return '"reason": "paused"' in json.dumps(_shown_trigger(reader))

        wait_until("a change is skipped", is_skipped, every_s=READS_S)
        orders.insert_one({"_id": "left-behind", "app_id": "acme", "status": "paid"})
        reader.unattended("triggers", "resume", "Thanks/paid-order", "--from", "5m")

        [run] = wait_until("its run is there", lambda: _runs_of(reader, "left-behind"), every_s=READS_S)
        orders.insert_one({"_id": "the-next", "app_id": "acme", "status": "new"})
        with orders.watch(resume_after={"_data": run["trigger"]["id"]}) as listener:
            assert next(listener)["documentKey"] == {"_id": "the-next"}


def _shown_trigger(reader: Reader) -> Any:
    return reader.unattended("triggers", "show", "Thanks/paid-order")


def _runs_of(reader: Reader, order_id: str) -> list[Any]:
    """The recipe's page may have paid other orders meanwhile."""
    runs = reader.unattended("runs", "list", "--workflow", "Thanks")
    return [run for run in runs if run["input"] == {"order_id": order_id}]


def test_prometheus_finds_the_roles_of_up_and_those_that_were_restarted(reader: Reader) -> None:
    """Runs last, as it kills a worker; the guide has started Prometheus."""
    assert_roles_are_found_again(reader)
    _, targets = files_of_up(reader)

    reader.leave()

    assert not targets.exists()  # stopped on purpose: no alert about missing roles
