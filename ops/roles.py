"""The five roles of one machine: what `up` and `demo` keep running."""

from ops.supervisor import Child, role_command
from workers.settings import Settings, as_environment

ROLES = ("gateway", "scheduler", "watcher", "worker", "exporter")


def role_children(settings: Settings) -> list[Child]:
    environment = as_environment(settings)
    return [Child(role, role_command(role), environment) for role in ROLES]
