"""Trigger types: specs by type and alias, and unsupported types."""

from workflows.package.trigger_specs.change_spec import ChangeSpec
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

TriggerSpec = ScheduleSpec | ChangeSpec | WebhookSpec | FormSpec | RunFinishedSpec

SPEC_BY_TYPE: dict[str, type[TriggerSpec]] = {
    "schedule": ScheduleSpec,
    "scheduled": ScheduleSpec,
    "cron": ScheduleSpec,
    "cron_schedule": ScheduleSpec,
    "database_condition": ChangeSpec,
    "change_stream": ChangeSpec,
    "db": ChangeSpec,
    "webhook": WebhookSpec,
    "http": WebhookSpec,
    "endpoint": WebhookSpec,
    "form_submit": FormSpec,
    "form": FormSpec,
    "run_finished": RunFinishedSpec,
}


def canonical_type(name: str) -> str:
    """Returns the stored type of a name that authors may write, such as schedule for cron."""
    return str(SPEC_BY_TYPE[name].model_fields["type"].default)


TRIGGER_TYPES = tuple(dict.fromkeys(map(canonical_type, SPEC_BY_TYPE)))
CHAT_TYPES = {"chat", "chat_start", "user"}
CRON_FIELDS = ("cron", "cron_schedule", "schedule", "expression")
UNSUPPORTED_TYPES = {
    "manual": "its endpoint does not exist here; start runs with `unattended enqueue`, or declare a webhook",
    "event": "events inside an application do not reach a worker; declare a webhook or a database_condition",
    "threshold": "its condition is not measured here; declare a schedule, or a database_condition",
}
