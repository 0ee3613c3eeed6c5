"""The kinds of triggers by the names that authors give them."""

from workflows.package.trigger_specs.change import ChangeSpec
from workflows.package.trigger_specs.form import FormSpec
from workflows.package.trigger_specs.run_finished import RunFinishedSpec
from workflows.package.trigger_specs.schedule import ScheduleSpec
from workflows.package.trigger_specs.webhook import WebhookSpec

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
CHAT_TYPES = {"chat", "chat_start", "user"}
CRON_FIELDS = ("cron", "cron_schedule", "schedule", "expression")
UNSUPPORTED_TYPES = {
    "manual": "nobody calls its endpoint here: start runs with `unattended enqueue`, or declare a webhook",
    "event": "events inside of an application do not reach a worker: declare a webhook or a database_condition",
    "threshold": "nobody measures what its condition names: declare a schedule, or a database_condition",
}
