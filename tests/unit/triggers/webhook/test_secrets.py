"""A trigger's secrets: what resolves counts, what does not is reported once."""

import logging
from pathlib import Path

import pytest

from triggers.webhook.secrets import Secrets
from workers.settings import Settings
from workflows.package.trigger_specs.webhook import Verification, WebhookSpec


def webhook(*references: str) -> WebhookSpec:
    return WebhookSpec(name="paid", apps=("acme",), verify=Verification(scheme="github", secret=references))


def test_references_resolve_to_secrets(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    secrets = Secrets(Settings(environ={"KEY": "from the environment"}))

    found = secrets.of(webhook("env:KEY", f"file:{tmp_path / 'key'}"), workflow="Orders")

    assert found == ("from the environment", "from a file")


def test_an_empty_secret_file_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    assert Secrets(Settings()).of(webhook(f"file:{tmp_path / 'key'}"), workflow="Orders") == ()


def test_during_a_rotation_the_secret_that_is_there_counts() -> None:
    assert Secrets(Settings(environ={"OLD": "old"})).of(webhook("env:NEW", "env:OLD"), workflow="Orders") == ("old",)


def test_a_missing_secret_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    secrets = Secrets(Settings())

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert secrets.of(webhook("env:KEY"), workflow="Orders") == ()

    assert [record.getMessage() for record in caplog.records] == ["webhook_secret_missing"]
