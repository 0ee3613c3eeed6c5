"""CPU per turn and memory per run of our conversation, against bare loops over `Agent.ask`, at many runs at once.

    .venv/bin/python benchmarks/chat.py [--runs 1 100 1000] [--repeat 3] [--stock-up-to 100] [--tune-gc] [--profile]

The same chat on the same model server, which is a process of its own: see chat_engines.py. `bare b2` is a loop with
our stream, one client and a list of what was used; `bare stock` the same with AG2's own stream. Every number comes
from a fresh process, and the best of the repeats counts. CPU is that of the process, divided by turns; memory is what
the process grew by from its warm-up to the moment when every run waits in its last model call, divided by runs.
"""

import argparse
import asyncio
import cProfile
import gc
import json
import pstats
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

# This folder comes last: `accounting` and `triggers` are the packages, not files of it.
sys.path.sort(key=lambda place: Path(place).resolve() == Path(__file__).resolve().parent)

HERE = Path(__file__).resolve().parent
ENGINES = ("bare b2", "bare stock", "unattended")
TARGET_RATIO, TARGET_KB = 1.3, 150
ALONE = 60  # runs one after another, where one at a time is measured
WARM_UP = 5
LATENCY_MS = 200


@asynccontextmanager
async def model_stub() -> AsyncIterator[str]:
    stub = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / "model_stub.py"), stdout=asyncio.subprocess.PIPE
    )
    assert stub.stdout is not None
    port = int(await stub.stdout.readline())
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stub.terminate()
        await stub.wait()


async def measure_process(url: str, name: str, runs: int, what: str, options: argparse.Namespace) -> float:
    """In a process of its own."""
    flags = [flag for flag, given in (("--tune-gc", options.tune_gc), ("--profile", options.profile)) if given]
    command = [str(HERE / "chat.py"), "--measure", what, "--engine", name, "--runs", str(runs), "--url", url, *flags]
    child = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=None if options.profile else -1
    )
    out, errors = await child.communicate()
    if child.returncode:
        raise SystemExit(f"{name} failed: {(errors or b'').decode()[-2000:]}")
    return float(json.loads(out.splitlines()[-1]))


async def measure(options: argparse.Namespace) -> None:
    from chat_engines import TURNS, RecordedCalls, engine

    runs, kept = options.runs[0], RecordedCalls()
    where = "hold" if options.measure == "memory" else "ms0" if runs == 1 else f"ms{LATENCY_MS}"
    with tempfile.TemporaryDirectory() as folder:
        warm = engine(options.engine, f"{options.url}/ms0/v1", Path(folder) / "warm" / "Weekly", RecordedCalls())
        for _ in range(WARM_UP):
            await warm()
        run = engine(options.engine, f"{options.url}/{where}/v1", Path(folder) / "Weekly", kept)
        if options.tune_gc:
            gc.collect()
            gc.freeze()
            gc.set_threshold(20_000, 20, 20)
        if options.measure == "memory":
            print(json.dumps(await memory_growth_kb(run, runs, options.url)))
            return
        profile = cProfile.Profile() if options.profile else None
        began = time.process_time()
        if profile is not None:
            profile.enable()
        rounds = ALONE if runs == 1 else 3 if runs <= 100 else 1
        for _ in range(rounds):
            await asyncio.gather(*(run() for _ in range(runs)))
        if profile is not None:
            profile.disable()
            pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(45)
        print(json.dumps((time.process_time() - began) * 1000 / rounds / runs / TURNS))


async def memory_growth_kb(run: Any, runs: int, url: str) -> float:
    import httpx2
    import psutil

    process = psutil.Process()
    gc.collect()
    before = process.memory_info().rss
    async with httpx2.AsyncClient(trust_env=False) as stub:
        tasks = [asyncio.create_task(run()) for _ in range(runs)]
        while int((await stub.get(f"{url}/waiting")).text) < runs:
            assert not any(task.done() for task in tasks), [task for task in tasks if task.done()]
            await asyncio.sleep(0.05)
        gc.collect()
        grown = process.memory_info().rss - before
        await stub.post(f"{url}/release")
        await asyncio.gather(*tasks)
    return grown / 1000 / runs


async def main(options: argparse.Namespace) -> None:
    print(f"{'runs at once':>12} {'engine':12} {'CPU ms/turn':>11} {'x b2':>6} {'KB/run':>8} {'x b2':>6}  target")
    for runs in options.runs:
        first: tuple[float, float] | None = None
        for name in ENGINES:
            if name == "bare stock" and runs > options.stock_up_to:
                continue
            async with model_stub() as url:
                cpu = min([await measure_process(url, name, runs, "cpu", options) for _ in range(options.repeat)])
                # One run is lost in what an allocator takes at once.
                kb = min([await measure_process(url, name, runs, "memory", options) for _ in range(options.repeat)])
            first = first or (cpu, kb)
            ratio = cpu / first[0]
            met = "PASS" if ratio <= TARGET_RATIO and (runs == 1 or kb <= TARGET_KB) else "over target"
            verdict = met if name == "unattended" else ""
            print(f"{runs:12} {name:12} {cpu:11.3f} {ratio:6.2f} {kb:8.0f} {kb / first[1]:6.2f}  {verdict}", flush=True)
    print(f"target: CPU at most {TARGET_RATIO} x bare b2, at most {TARGET_KB} KB each (not judged for a single run)")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--stock-up-to", type=int, default=100, help="AG2's own stream takes minutes for more")
    parser.add_argument("--tune-gc", action="store_true", help="gc.freeze after the warm-up and higher thresholds")
    parser.add_argument("--profile", action="store_true", help="cProfile of each engine, on stderr")
    for hidden in ("--measure", "--engine", "--url"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    asyncio.run(measure(given) if given.measure else main(given))
