"""A role that kills itself when it passes a landmark for the n-th time: `dying_role.py worker|acceptance LANDMARK N`.

With N = 0 it lives on. The acceptance accepts ten events in order, and names each run once it is accepted.
"""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime

from workers.crash_points import CrashPoint, watch_crash_points
from workers.settings import Settings, load_settings
from workers.store.run import RunRequest, TriggerEvent

EVENTS = 10


def die_at(landmark: str, nth: int) -> None:
    passed = 0

    def on_passing(here: CrashPoint) -> None:
        nonlocal passed
        passed += here == landmark
        if here == landmark and passed == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    watch_crash_points(on_passing)


async def accept_a_run(settings: Settings) -> None:
    from triggers.role_context import open_role_context

    async with open_role_context(settings) as ground:
        for number in range(EVENTS):
            event = TriggerEvent("webhook", "t", f"event-{number}", datetime.now(UTC))
            accepted = await ground.acceptance.accept(
                RunRequest("acme", "Desk", event, input={"customer_id": f"c{number}"})
            )
            print(accepted.run_id, flush=True)  # noqa: T201 -- the promise
            await ground.wakeups.wait_until_published()


def main() -> None:
    role, landmark, nth = sys.argv[1], sys.argv[2], int(sys.argv[3])
    die_at(landmark, nth)
    if role == "acceptance":
        asyncio.run(accept_a_run(load_settings()))
    else:
        from workers.worker_role import serve

        serve(load_settings())


if __name__ == "__main__":
    main()
