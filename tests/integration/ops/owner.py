"""A process like `unattended up`, to be killed: embedded servers and two roles, one ignoring SIGTERM."""

import asyncio
import json
import signal
import sys
from pathlib import Path

from ops.embedded.embedded_servers import embedded_servers
from ops.processes.supervisor import Child, Supervisor

ROLE = "import signal; signal.pause()"
DEAF_ROLE = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {ROLE[15:]}"


async def main(data_dir: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    children = [Child("role", (sys.executable, "-c", ROLE)), Child("deaf", (sys.executable, "-c", DEAF_ROLE))]
    async with embedded_servers(data_dir), Supervisor(children, log_dir=data_dir / "roles", grace_s=0.5) as supervisor:
        print(json.dumps(supervisor.pids()), flush=True)  # noqa: T201 -- how the test learns that it is up
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
