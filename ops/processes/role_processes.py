"""The five roles of one machine as child processes, each with the address of its metrics."""

from collections.abc import Mapping
from dataclasses import replace

from ops.free_ports import find_next_free
from ops.processes.supervisor import Child, role_command
from workers.setting_values import Address
from workers.settings import Settings, as_environment

ROLES = ("gateway", "scheduler", "watcher", "worker", "exporter")


def role_addresses(settings: Settings) -> dict[str, Address]:
    """Give roles without a setting the next free ports, which they keep when they restart."""
    addresses = {"gateway": settings.listen, "exporter": settings.metrics_listen}
    for role in ROLES:
        if role not in addresses:
            used_ports = {address.port for address in addresses.values()}
            addresses[role] = find_next_free(settings.metrics_listen, excluded_ports=used_ports)
    return addresses


def role_children(settings: Settings, addresses: Mapping[str, Address] | None = None) -> list[Child]:
    if addresses is None:
        addresses = role_addresses(settings)
    return [
        Child(role, role_command(role), as_environment(_role_settings(role, settings, addresses[role])))
        for role in ROLES
    ]


def _role_settings(role: str, settings: Settings, address: Address) -> Settings:
    if role in ("gateway", "exporter"):
        return settings
    # A role takes the first free port after the configured one.
    return replace(settings, metrics_listen=Address(address.host, address.port - 1))
