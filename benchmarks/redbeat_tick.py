"""The baseline of the tick benchmark: RedBeat with so many entries that are all due. Its tick, timed in milliseconds.

A process of its own: a Celery app reads its configuration once. Arguments: Redis URL, entries.
"""

import sys
import time
from datetime import UTC, datetime, timedelta

from celery import Celery
from celery.schedules import schedule
from redbeat import RedBeatScheduler, RedBeatSchedulerEntry
from redis import Redis


def tick_ms(redis_url: str, due: int) -> float:
    app = Celery("bench", broker=redis_url)
    app.conf.update(redbeat_redis_url=redis_url, task_ignore_result=True)

    @app.task(name="bench.work")
    def work() -> None: ...

    redis = Redis.from_url(redis_url)
    redis.flushdb()  # leftovers of an earlier tick
    ago = datetime.now(UTC) - timedelta(seconds=61)
    for number in range(due):
        entry = RedBeatSchedulerEntry(f"every-minute-{number}", "bench.work", schedule(60, app=app), app=app)
        entry.save()
        entry.reschedule(last_run_at=ago)
    scheduler = RedBeatScheduler(app, lazy=True)
    scheduler.lock_key = None  # one scheduler needs no lock
    began = time.perf_counter()
    scheduler.tick()
    took_ms = (time.perf_counter() - began) * 1000
    sent = redis.llen("celery")
    if sent != due:
        raise SystemExit(f"RedBeat sent {sent} of {due}")
    return took_ms


if __name__ == "__main__":
    print(tick_ms(sys.argv[1], int(sys.argv[2])))
