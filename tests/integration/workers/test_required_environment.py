"""Required environment variables: without one, a worker makes no model call."""

import json
import os

import pytest

from tests.integration.stage import Stage, relay

pytestmark = pytest.mark.integration

URL = "https://hooks.example.com/T0/B0"
TOOL = f"""
import os

URL = os.environ["POSTING_HOOK_URL"]

def post(context_variables=None):
    assert URL == "{URL}"
    context_variables.set("posted_to", URL)
    return f"posted to {{URL}}"
"""


def write_posting_package(stage: Stage) -> None:
    package = relay("Posting", ["A"], requires={"env": ["POSTING_HOOK_URL"]})
    package["tools"] = {"tools": [{"agent": "A", "file": "post.py", "function": "post"}]}
    stage.package("Posting", {**package, "tools/post.py": TOOL})
    stage.package("Other", relay("Other", ["A"]))
    stage.answers({}, default={"text": "ok"})


async def test_a_run_without_it_fails_before_its_first_model_call_and_names_it(stage: Stage) -> None:
    write_posting_package(stage)
    await stage.start_worker(environ={name: value for name, value in os.environ.items() if name != "POSTING_HOOK_URL"})

    run = await stage.wait_for_end((await stage.accept("Posting")).run_id)
    other = await stage.wait_for_end((await stage.accept("Other")).run_id)

    outcome = run["outcome"]
    assert (run["state"], outcome["kind"], run["attempt"], run["turn"]) == ("failed", "package_error", 1, 0)
    assert outcome["reason"] == (
        "the environment variable POSTING_HOOK_URL is not set, and Posting requires it (requires.env of its "
        "orchestrator file); set it in the environment of the worker processes, restart them, and replay the run"
    )
    assert await stage.usage_rows(run["_id"]) == []
    assert other["state"] == "succeeded"


async def test_in_production_a_run_with_it_succeeds_and_stores_no_value(stage: Stage) -> None:
    write_posting_package(stage)
    stage.answers({"A": [{"tool_calls": [{"name": "post"}]}, {"text": f"I posted to {URL}"}]})
    await stage.start_worker(environ={**os.environ, "POSTING_HOOK_URL": URL}, environment="production")

    run = await stage.wait_for_end((await stage.accept("Posting")).run_id)

    turns = await stage.store.committed_turns(run["_id"], up_to=1)
    assert run["state"] == "succeeded"
    assert run["context"]["posted_to"] == "(hidden)"
    assert URL not in json.dumps([run, *turns], default=str)
    assert "POSTING_HOOK_URL" not in run["context"]
