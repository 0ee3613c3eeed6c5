"""Facts: the values that every run has of itself."""

import hashlib

import pytest

from workflows.context.run_facts import FIXED_NAMES, RunFacts, cache_seed


@pytest.mark.design("D4-79")
def test_a_cache_seed_is_of_one_chat_of_one_app() -> None:
    seeds = {(app, chat): cache_seed(app, chat) for app in ("acme", "globex") for chat in ("c1", "c2")}

    assert len(set(seeds.values())) == 4
    assert seeds["acme", "c1"] == int.from_bytes(hashlib.sha256(b"acme:c1").digest()[:4], "big")
    facts = RunFacts("run_1", "acme", None, "c1", "Small", {}).base_values()
    assert facts["cache_seed"] == seeds["acme", "c1"]
    assert facts.keys() == FIXED_NAMES
