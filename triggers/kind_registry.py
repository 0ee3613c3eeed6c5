"""The kinds of triggers, by the type that packages and documents name.

A new kind is a folder and a line here.
"""

from collections.abc import Mapping

from triggers.change_stream.change_kind import KIND as CHANGE
from triggers.form.form_kind import KIND as FORM
from triggers.run_finished.run_finished_kind import KIND as RUN_FINISHED
from triggers.schedule.schedule_kind import KIND as SCHEDULE
from triggers.trigger_kind import TriggerKind
from triggers.webhook.webhook_kind import KIND as WEBHOOK

_ALL_KINDS: tuple[TriggerKind, ...] = (SCHEDULE, CHANGE, WEBHOOK, FORM, RUN_FINISHED)
KINDS: Mapping[str, TriggerKind] = {kind.type: kind for kind in _ALL_KINDS}
