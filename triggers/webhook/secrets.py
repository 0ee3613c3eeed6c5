"""Webhook secrets: a trigger's references resolved for one call, with one warning for what is missing."""

import logging

from workers.settings import Settings, SettingsError
from workflows.package.trigger_specs.webhook import WebhookSpec

log = logging.getLogger(__name__)


class Secrets:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Strangers may call an inactive trigger as often as they like; the log hears of it once.
        self._reported: set[tuple[str, str, str]] = set()

    def of(self, spec: WebhookSpec, *, workflow: str) -> tuple[str, ...]:
        """Those that can be resolved now: a rotated file is read with the next call, a missing one left out."""
        found = []
        for reference in spec.verify.secret:
            problem = "it is empty"
            try:
                secret = self._settings.resolve_secret(reference)
            except SettingsError as error:
                secret, problem = "", str(error)
            if secret.strip():  # anybody could sign with an empty key
                found.append(secret)
                self._reported.discard((workflow, spec.name, reference))
            else:
                self._report(workflow, spec.name, reference, problem=problem)
        return tuple(found)

    def _report(self, workflow: str, trigger: str, reference: str, *, problem: str) -> None:
        if (workflow, trigger, reference) not in self._reported:
            self._reported.add((workflow, trigger, reference))
            fields = {"workflow": workflow, "trigger": trigger, "secret": reference, "problem": problem}
            log.warning("webhook_secret_missing", extra=fields)
