"""The shipped packages: their tools against a real server, in a run."""

import runpy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.github_server import TOKEN, FakeGitHub, github_server
from workers.local_run.report import RunReport
from workers.local_run.run_package import run_package_async
from workflows.context.context_variables import ContextVariables
from workflows.package.catalog import LIBRARY

pytestmark = pytest.mark.integration

ISSUE = {"repository": "acme/shop", "number": 7, "title": "Export loses a row", "body": "The last one."}
COMMENTS = "/repos/acme/shop/issues/7/comments"
REPLY = {"text": '{"comment": "Which version is it?"}'}


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGitHub]:
    with github_server() as github:
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        yield github


async def run_triage(kind: str = "bug", **issue: Any) -> RunReport:
    triage = {"text": f'{{"kind": "{kind}", "summary": "A row is lost.", "missing": []}}'}
    script = {"answers": {"Classifier": [triage], "Responder": [REPLY]}}
    return await run_package_async(LIBRARY / "IssueTriage", script=script, input={**ISSUE, **issue})


async def test_an_issue_is_answered_on_its_own_page_with_a_mark_of_its_turn(github: FakeGitHub) -> None:
    run = await run_triage()

    assert run.succeeded, run.outcome
    assert list(github.comments) == [COMMENTS]
    (comment,) = github.comments[COMMENTS]
    assert comment.startswith("Which version is it?\n\n<!-- ")
    assert run.context["comment_url"] == f"{github.url}{COMMENTS}#1"


async def test_a_turn_that_is_taken_again_posts_nothing_more(github: FakeGitHub) -> None:
    post_comment = runpy.run_path(str(LIBRARY / "IssueTriage" / "tools" / "post_comment.py"))["post_comment"]
    run = await run_triage()
    (comment,) = github.comments[COMMENTS]
    key_of_its_turn = comment.split("<!-- ")[1].removesuffix(" -->")

    again = await post_comment("Other words.", key_of_its_turn, ContextVariables(run.context))

    assert again["posted"] is True
    assert github.comments[COMMENTS] == [comment]


async def test_spam_gets_no_answer(github: FakeGitHub) -> None:
    run = await run_triage(kind="spam")

    assert (run.succeeded, run.outcome.reason, run.speakers) == (True, "spam", ["Classifier"])
    assert github.comments == {}


async def test_what_github_refuses_fails_the_run_with_its_status(
    github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "another one")

    run = await run_triage()

    assert (run.state, run.outcome.kind) == ("failed", "tool_error")
    assert "GitHub answered 401" in str(run.as_json())
    assert not any(github.comments.values())


async def test_without_a_token_the_draft_is_all(github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")

    run = await run_triage()

    assert run.succeeded
    assert github.comments == {}
    assert '"posted": false' in str(run.turns[1].tool_calls[0].result)


@pytest.mark.parametrize("repository", ["acme", "acme/shop/../..", "../x", "acme/shop?x=1"])
async def test_an_address_that_is_no_repository_is_not_asked_for(github: FakeGitHub, repository: str) -> None:
    run = await run_triage(repository=repository)

    assert run.state == "failed"
    assert github.comments == {}
