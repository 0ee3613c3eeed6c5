"""The five roles of one machine: what `up` and `demo` keep running, and where each serves its metrics."""

from collections.abc import Mapping
from dataclasses import replace

from ops.free_ports import find_next_free
from ops.processes.supervisor import Child, role_command
from workers.setting_values import Address
from workers.settings import Settings, as_environment

ROLES = ("gateway", "scheduler", "watcher", "worker", "exporter")


def role_addresses(settings: Settings) -> dict[str, Address]:
    """Roles without a setting of their own get the next ports that are free now, and keep them when they restart."""
    found = {"gateway": settings.listen, "exporter": settings.metrics_listen}
    for role in ROLES:
        if role not in found:
            found[role] = find_next_free(settings.metrics_listen, excluded_ports={each.port for each in found.values()})
    return found


def role_children(settings: Settings, addresses: Mapping[str, Address] | None = None) -> list[Child]:
    at = addresses or role_addresses(settings)
    return [Child(role, role_command(role), as_environment(_role_settings(role, settings, at[role]))) for role in ROLES]


def _role_settings(role: str, settings: Settings, address: Address) -> Settings:
    if role in ("gateway", "exporter"):
        return settings
    # A role takes the first free port after the one that it is given.
    return replace(settings, metrics_listen=Address(address.host, address.port - 1))
