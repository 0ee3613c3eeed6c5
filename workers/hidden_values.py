"""Hidden values: what no context, prompt, log or record may contain.

In production these are the values of all variables that a loaded package declares or requires, and of those that look
like secrets. Everywhere they are the secrets that a models file or a package refers to, and the passwords of the
stores.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote, urlsplit

from workers.settings import Settings, SettingsError
from workflows.context.reads.supplied_values import BASE_FLAGS
from workflows.models_file import HostedModel, ModelSpec
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.variable_sources import EnvSource, ExternalSource
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

# Other variables are settings, of which tools may speak: hiding a host name would break each link to it.
_SECRET_NAME = re.compile(
    r"secret|token|passw|passphrase|credential|private|api_?key|_key$|^key_|_salt$", re.IGNORECASE
)
_PLAIN_NAME = re.compile(
    r"(^|_)(host|hostname|url|uri|path|home|dir|region|zone|version|image|tag|sha|commit|branch|pod|node|name|namespace"
    r"|addr|address|port|lang|term|user|shell|display|hosts|queue|database|container|instance|cluster|arch|machine)(_|$)",
    re.IGNORECASE,
)
TRACES_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
_HEADER_OF_KEY = re.compile(r"auth|key|token|secret|passw", re.IGNORECASE)
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=.~-]{16,}")


def values_of_environment(settings: Settings) -> set[str]:
    """Lists secrets of the process that no package declares.

    Tools may read them all the same.
    """
    found = {password for value in settings.environ.values() if "@" in value for password in _url_passwords(value)}
    found |= {value for name in TRACES_HEADERS for value in _header_keys(settings.environ.get(name, ""))}
    if not settings.production:
        return found
    return found | {value for name, value in settings.environ.items() if _looks_secret(name, value)}


def _looks_secret(name: str, value: str) -> bool:
    if _SECRET_NAME.search(name):
        # The path of a secret file is no secret.
        return not value.startswith("/")
    return _PLAIN_NAME.search(name) is None and _RANDOM.fullmatch(value.strip()) is not None


def _header_keys(headers: str) -> Iterator[str]:
    """Lists keys in headers of OpenTelemetry: `name=value,name=value`, as in a URL.

    Other headers may name a tenant, which may be an app as well.
    """
    for header in headers.split(","):
        name, _, raw = header.partition("=")
        value = unquote(raw).strip()
        if _HEADER_OF_KEY.search(name) or _RANDOM.fullmatch(value):
            yield from (value, value.rpartition(" ")[2])  # also the part after `Bearer`


def _url_passwords(url: str) -> Iterator[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))


def values_of_packages(packages: Iterable[Package], settings: Settings) -> set[str]:
    loaded = list(packages)
    secrets = _resolve_references((secret for package in loaded for secret in _secret_references(package)), settings)
    if not settings.production:
        return secrets
    names = {variable for variable, _ in BASE_FLAGS.values()}
    names |= {name for package in loaded for name in _declared_variables(package)}
    return secrets | {settings.environ[name] for name in names if name in settings.environ}


def values_of_models(models: Mapping[str, ModelSpec], settings: Settings) -> set[str]:
    keys = (spec.api_key for spec in models.values() if isinstance(spec, HostedModel) and spec.api_key)
    return _resolve_references(keys, settings)


def _declared_variables(package: Package) -> Iterable[str]:
    yield from package.orchestrator.required_environment
    yield from (
        variable.source.env_var for variable in package.variables.values() if isinstance(variable.source, EnvSource)
    )


def _secret_references(package: Package) -> Iterable[str]:
    for trigger in package.triggers:
        if isinstance(trigger, WebhookSpec):
            yield from trigger.verify.secret
    for variable in package.variables.values():
        if isinstance(variable.source, ExternalSource) and variable.source.authorization is not None:
            yield variable.source.authorization.secret


def _resolve_references(references: Iterable[str], settings: Settings) -> set[str]:
    found = set()
    for reference in references:
        try:
            found.add(settings.resolve_secret(reference))
        except SettingsError:  # reported where the secret is needed
            continue
    return found
