"""What a trigger costs: webhook accepts, ticks and change events, each durable, against bare baselines in the same run.

    .venv/bin/python benchmarks/triggers.py [--only calls] [--calls 10000] [--schedules 100000] [--events 20000]

`calls`: accepted webhooks per second at 64 and 512 connections, against a FastAPI handler with Celery's apply_async.
`ticks`: 1,000 and 10,000 due schedules against RedBeat, and an idle tick. `changes`: events of a change stream against
a bare `watch()` loop. Servers, load and what is measured share the machine's cores.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

# This folder comes last: `triggers` is the package, not this file.
sys.path.append(str(Path(__file__).resolve().parent))
sys.path.sort(key=lambda place: Path(place).resolve() == Path(__file__).resolve().parent)

import trigger_calls
import trigger_changes
import trigger_ticks

from ops.embedded.embedded_servers import embedded_servers

PARTS = ("calls", "ticks", "changes")


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=PARTS, help="one part of it")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--schedules", type=int, default=100_000, help="of the idle tick")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with embedded_servers(folder / "data") as services:
            if options.only in (None, "calls"):
                await trigger_calls.compare(services, folder / "calls", count=options.calls, repeat=options.repeat)
            if options.only in (None, "ticks"):
                await trigger_ticks.compare(services, folder / "ticks", schedules=options.schedules)
            if options.only in (None, "changes"):
                for number in range(options.repeat):
                    await trigger_changes.compare(services, folder / f"changes-{number}", events=options.events)


if __name__ == "__main__":
    asyncio.run(main())
