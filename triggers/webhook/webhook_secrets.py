"""Webhook secrets: resolves a trigger's secret references for each call."""

import logging
from collections.abc import Mapping

from triggers.register.trigger import Trigger
from workers.settings import Settings, SettingsError
from workflows.package.trigger_specs.webhook_spec import Verification, WebhookSpec

log = logging.getLogger(__name__)

MAX_REPORTED = 1_000  # triggers created at run time come and go
_UNVERIFIED = (
    "scheme none is refused in production: name a scheme, or write even_in_production: true beside it "
    "to let anybody start runs"
)


def secret_problems(verify: Verification, settings: Settings) -> Mapping[str, str | None]:
    """Maps each reference to its problem, or to None when it resolves now.

    The secrets stay in this module.
    """
    return {reference: _resolve_secret(reference, settings)[1] for reference in verify.secret}


def unverified_problem(verify: Verification, settings: Settings) -> str | None:
    if verify.scheme == "none" and settings.production and not verify.even_in_production:
        return _UNVERIFIED
    return None


class WebhookSecrets:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Anyone may call an inactive trigger any number of times; each problem is logged once.
        self._reported: set[tuple[str, str]] = set()

    def resolve(self, trigger: Trigger, spec: WebhookSpec) -> tuple[str, ...] | None:
        """Returns the secrets that resolve now; None when the trigger is inactive.

        A rotated file is read with the next call. A secret that is missing is left out.
        """
        verify = spec.verify
        problem = unverified_problem(verify, self._settings)
        if problem is not None:
            self._report(trigger, "none", problem)
            return None
        if verify.scheme == "none":
            return ()
        found = []
        for reference in verify.secret:
            secret, problem = _resolve_secret(reference, self._settings)
            if problem is None:
                found.append(secret)
                self._reported.discard((trigger.id, reference))
            else:
                self._report(trigger, reference, problem)
        return tuple(found) or None

    def _report(self, trigger: Trigger, reference: str, problem: str) -> None:
        if (trigger.id, reference) not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add((trigger.id, reference))
            fields = {"workflow": trigger.workflow, "trigger": trigger.spec.name, "secret": reference}
            log.warning("webhook_secret_missing", extra={**fields, "problem": problem})


def _resolve_secret(reference: str, settings: Settings) -> tuple[str, str | None]:
    """Returns the secret, or its problem.

    An empty secret is one: anyone could sign with it.
    """
    try:
        secret = settings.resolve_secret(reference)
    except SettingsError as error:
        return "", str(error)
    return (secret, None) if secret.strip() else ("", f"the secret {reference} is empty")
