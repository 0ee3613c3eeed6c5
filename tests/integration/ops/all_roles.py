"""All five roles as processes on a stage, with the addresses of their metrics."""

import asyncio
import os
import re
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from ops.free_ports import find_free_address
from ops.processes.role_processes import ROLES
from ops.processes.supervisor import role_command
from tests.integration.role_forks import FORKS
from tests.integration.stage import Stage, wait_until
from workers.settings import as_environment


class Roles:
    def __init__(self, stage: Stage, environ: Mapping[str, str]) -> None:
        settings = replace(stage.settings, listen=find_free_address(), environ={**os.environ, **environ})
        exporter = replace(settings, metrics_listen=find_free_address())
        self._settings = {**dict.fromkeys(ROLES, settings), "exporter": exporter}
        self._folder = stage.folder
        self._processes: dict[str, Process] = {}
        self.at = {"gateway": str(settings.listen), "exporter": str(exporter.metrics_listen)}

    async def start(self, *roles: str) -> None:
        """Wait until each role logs the address of its metrics."""
        started = {role: f"{role}-{len(list(self._folder.glob(f'{role}-*.log')))}.log" for role in roles}
        for role, log in started.items():
            self._processes[role] = await FORKS.start(
                role_command(role),
                env=as_environment(self._settings[role]),
                log=self._folder / log,
                folder=self._folder,
            )
        for role in {*roles} - {"gateway", "exporter"}:
            self.at[role] = await wait_until(f"the {role} listens", partial(self._address_in_log, role, started[role]))

    async def _address_in_log(self, role: str, log: str) -> str | None:
        output = await asyncio.to_thread((self._folder / log).read_text, encoding="utf-8")
        assert self._processes[role].returncode is None, output
        found = re.search(r"metrics_listening\s+address=(\S+)", output)
        return found[1] if found else None

    async def stop(self, *roles: str) -> None:
        processes = [self._processes.pop(role) for role in roles]
        for process in processes:
            if process.returncode is None:
                process.terminate()
        for process in processes:
            await process.wait()

    async def close(self) -> None:
        await self.stop(*self._processes)


@asynccontextmanager
async def all_roles(stage: Stage, **environ: str) -> AsyncIterator[Roles]:
    roles = Roles(stage, environ)
    try:
        await roles.start(*ROLES)
        yield roles
    finally:
        await roles.close()
