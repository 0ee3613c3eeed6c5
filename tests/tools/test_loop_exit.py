"""The exit of a process in which a thread of the loop hangs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_call_that_hangs_does_not_hold_up_the_exit_of_the_process() -> None:
    code = (
        "import asyncio, threading\n"
        "from workers.process.event_loop import WorkerLoop\n"
        "async def hang():\n"
        "    await asyncio.wait_for(asyncio.to_thread(threading.Event().wait), 0.05)\n"
        "try: \n  with asyncio.Runner(loop_factory=WorkerLoop) as runner: runner.run(hang())\n"
        "except TimeoutError: print('over')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, cwd=ROOT, check=True
    )
    assert done.stdout == "over\n"
