"""Hidden values: what of a worker's environment no context, prompt, log or record may show.

In production the values of all environment variables that any loaded package declares; everywhere the secrets
that a models file or a package refers to.
"""

from collections.abc import Iterable, Mapping

from workers.settings import Settings, SettingsError
from workflows.context.plain_values import BASE_FLAGS
from workflows.models_file import ModelSpec, OpenAIModel
from workflows.package.models import Package
from workflows.package.sources import EnvSource, ExternalSource
from workflows.package.trigger_specs import WebhookSpec


def values_of_packages(packages: Iterable[Package], settings: Settings) -> set[str]:
    loaded = list(packages)
    secrets = _resolved((secret for package in loaded for secret in _secrets(package)), settings)
    if not settings.production:
        return secrets
    names = {variable for variable, _ in BASE_FLAGS.values()}
    names |= {name for package in loaded for name in _declared(package)}
    return secrets | {settings.environ[name] for name in names if name in settings.environ}


def values_of_models(models: Mapping[str, ModelSpec], settings: Settings) -> set[str]:
    keys = (spec.api_key for spec in models.values() if isinstance(spec, OpenAIModel) and spec.api_key)
    return _resolved(keys, settings)


def _declared(package: Package) -> Iterable[str]:
    return (each.source.env_var for each in package.variables.values() if isinstance(each.source, EnvSource))


def _secrets(package: Package) -> Iterable[str]:
    for trigger in package.triggers:
        if isinstance(trigger, WebhookSpec):
            yield from trigger.verify.secret
    for variable in package.variables.values():
        if isinstance(variable.source, ExternalSource) and variable.source.authorization is not None:
            yield variable.source.authorization.secret


def _resolved(references: Iterable[str], settings: Settings) -> set[str]:
    found = set()
    for reference in references:
        try:
            found.add(settings.resolve_secret(reference))
        except SettingsError:  # said where the secret is needed
            continue
    return found
