"""The baseline of benchmarks/dispatch.py: a Celery app as its manual shows it, with late acknowledgement."""

import os
import time

from celery import Celery
from redis import BlockingConnectionPool, Redis

# One pool for all tasks, and not a connection for each of a thousand threads.
redis = Redis(connection_pool=BlockingConnectionPool.from_url(os.environ["BARE_BROKER"], max_connections=20))

app = Celery("bare", broker=os.environ["BARE_BROKER"])
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    task_default_queue="bare",
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)


@app.task(name="bare.count", ignore_result=True)
def count(wait_s: float = 0.0) -> None:
    """Waits as a chat does, then says that it ran, so that the end can be seen from outside: one INCR on the broker."""
    time.sleep(wait_s)
    redis.incr("bare:done")
