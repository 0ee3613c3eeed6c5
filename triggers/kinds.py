"""The kinds of triggers, by the type that packages and documents name. A new one is a folder, and a line here."""

from collections.abc import Mapping

from triggers.change_stream.kind import KIND as CHANGE
from triggers.form.kind import KIND as FORM
from triggers.kind import TriggerKind
from triggers.run_finished.kind import KIND as RUN_FINISHED
from triggers.schedule.kind import KIND as SCHEDULE
from triggers.webhook.kind import KIND as WEBHOOK

_ALL_KINDS: tuple[TriggerKind, ...] = (SCHEDULE, CHANGE, WEBHOOK, FORM, RUN_FINISHED)
KINDS: Mapping[str, TriggerKind] = {kind.type: kind for kind in _ALL_KINDS}
