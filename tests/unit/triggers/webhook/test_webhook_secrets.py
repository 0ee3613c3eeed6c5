"""A trigger's secrets: what resolves counts, what does not is reported once."""

import logging
from pathlib import Path

import pytest

from triggers.register.trigger import Trigger
from triggers.webhook.webhook_secrets import WebhookSecrets
from workers.settings import Settings
from workflows.package.trigger_specs.webhook_spec import Verification, WebhookSpec


def resolve_all(settings: Settings, *references: str) -> tuple[str, ...] | None:
    return resolve_for(WebhookSecrets(settings), Verification(scheme="github", secret=references))


def resolve_for(secrets: WebhookSecrets, verify: Verification) -> tuple[str, ...] | None:
    spec = WebhookSpec(name="paid", apps=("acme",), verify=verify)
    return secrets.resolve(Trigger("Orders", spec), spec)


def test_references_resolve_to_secrets(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    settings = Settings(environ={"KEY": "from the environment"})

    assert resolve_all(settings, "env:KEY", f"file:{tmp_path / 'key'}") == ("from the environment", "from a file")


def test_an_empty_secret_file_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    assert resolve_all(Settings(), f"file:{tmp_path / 'key'}") is None


def test_during_a_rotation_the_secret_that_is_there_counts() -> None:
    assert resolve_all(Settings(environ={"OLD": "old"}), "env:NEW", "env:OLD") == ("old",)


def test_a_rotated_file_is_read_with_the_next_call(tmp_path: Path) -> None:
    key, secrets = tmp_path / "key", WebhookSecrets(Settings())
    verify = Verification(scheme="github", secret=(f"file:{key}",))
    for text in ("old", "new"):
        key.write_text(text)
        assert resolve_for(secrets, verify) == (text,)


def test_a_missing_secret_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    secrets = WebhookSecrets(Settings())

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert resolve_for(secrets, Verification(scheme="github", secret=("env:KEY",))) is None

    assert [record.getMessage() for record in caplog.records] == ["webhook_secret_missing"]


@pytest.mark.parametrize(
    ("environment", "twice", "may_call"),
    [
        ("development", False, True),
        ("development", True, True),
        ("production", False, False),
        ("Production ", False, False),
        ("production", True, True),
    ],
)
def test_no_verification_needs_a_second_confirmation_in_production(
    environment: str, twice: bool, may_call: bool
) -> None:
    verify = Verification(scheme="none", even_in_production=twice)
    assert (resolve_for(WebhookSecrets(Settings(environment=environment)), verify) is not None) is may_call
