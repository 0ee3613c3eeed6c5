"""Hidden values: declared variables in production, referenced secrets always."""

from pathlib import Path

import pytest

from tests.unit.workflows.packages import load
from workers.hidden_values import values_of_environment, values_of_models, values_of_packages
from workers.settings import Settings
from workflows.models_file import AnthropicModel, ModelSpec, OpenAIModel, ScriptModel
from workflows.package.normal_form.package_model import Package


def declaring(folder: Path) -> Package:
    hook = {"name": "hook", "type": "webhook", "apps": ["acme"], "verify": {"scheme": "github"}}
    definitions = {
        "key": {"source": {"type": "environment", "env_var": "KEY"}},
        "region": {"source": {"type": "config", "env_var": "REGION"}},
        "unset": {"source": {"type": "config", "env_var": "UNSET"}},
        "rate": {
            "source": {
                "type": "external",
                "url": "https://rates.example.com/eur",
                "auth": {"type": "bearer", "secret": "env:RATES_TOKEN"},
            }
        },
    }
    return load(
        folder / "Declaring",
        orchestrator={"workflow_name": "Small", "initial_agent": "A", "requires": {"env": ["SLACK_URL", "ABSENT"]}},
        context_variables={"definitions": definitions},
        triggers={"triggers": [{**hook, "verify": {"scheme": "github", "secret": ["env:HOOK", f"file:{folder}/old"]}}]},
    )


ENVIRON = {
    "KEY": "value-of-key",
    "REGION": "value-of-region",
    "CONTEXT_AWARE": "value-of-flag",
    "HOOK": "value-of-hook",
    "RATES_TOKEN": "value-of-rates",
    "OTHER": "value-of-other",
    "SLACK_URL": "value-of-slack",
}
SECRETS = {"value-of-hook", "value-in-file", "value-of-rates"}


@pytest.mark.design("D1-75")
@pytest.mark.parametrize(
    ("environment", "hidden"),
    [
        ("production", SECRETS | {"value-of-key", "value-of-region", "value-of-flag", "value-of-slack"}),
        ("development", SECRETS),
    ],
)
def test_declared_variables_are_hidden_in_production_and_secrets_always(
    tmp_path: Path, environment: str, hidden: set[str]
) -> None:
    (tmp_path / "old").write_text("value-in-file\n", encoding="utf-8")
    settings = Settings(environment=environment, environ=ENVIRON)

    assert values_of_packages([declaring(tmp_path)], settings) == hidden


def test_model_keys_are_hidden_and_an_unset_one_is_reported_elsewhere(tmp_path: Path) -> None:
    models: dict[str, ModelSpec] = {
        "one": OpenAIModel(provider="openai", model="m", api_key="env:KEY"),
        "other": AnthropicModel(provider="anthropic", model="m", api_key="env:OTHER"),
        "unset": OpenAIModel(provider="openai", model="m", api_key="env:UNSET"),
        "none": OpenAIModel(provider="openai", model="m"),
        "script": ScriptModel(provider="script", file=tmp_path),
    }

    assert values_of_models(models, Settings(environ=ENVIRON)) == {"value-of-key", "value-of-other"}


UNDECLARED = {
    "STRIPE_API_KEY": "plain words",
    "DB_PASSWORD": "hunter22",
    "SOMETHING": "3f9ac1d2-77be-41aa-9d10",
    "TLS_PRIVATE_KEY": "/run/secrets/tls",
    "HOSTNAME": "worker-6d9f8b7c5-x2x4z",
    "AWS_REGION": "ap-southeast-2",
    "PATH": "/usr/local/bin:/usr/bin",
    "SHOP_URL": "https://shop.example.com/orders",
    "GREETING": "hello to all of you",
    "UNATTENDED_MONGODB_URL": "mongodb://ada:s3cr%40t-word@127.0.0.1:27017/?x=1",
    "BROKEN": "http://[@x",
}


@pytest.mark.parametrize("environment", ["development", "production"])
def test_the_key_of_a_collector_of_traces_is_hidden_and_no_tenants_name(environment: str) -> None:
    headers = "Authorization=Bearer%20words,X-Scope-OrgID=acme-corp, x-team = 3f9ac1d277be41aa,dd-api-key=k,"
    settings = Settings(environment=environment, environ={"OTEL_EXPORTER_OTLP_HEADERS": headers})

    found = values_of_environment(settings)

    assert found >= {"Bearer words", "words", "3f9ac1d277be41aa", "k"}
    assert "acme-corp" not in found


def test_in_production_apparent_secrets_are_hidden_even_if_undeclared() -> None:
    password = {"s3cr%40t-word", "s3cr@t-word"}

    assert values_of_environment(Settings(environment="development", environ=UNDECLARED)) == password
    assert values_of_environment(Settings(environment="production", environ=UNDECLARED)) == password | {
        "plain words",
        "hunter22",
        "3f9ac1d2-77be-41aa-9d10",
    }
