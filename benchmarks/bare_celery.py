"""The baseline of benchmarks/dispatch.py: a Celery app as its manual shows it, with late acknowledgement."""

import os

from celery import Celery

app = Celery("bare", broker=os.environ["BARE_BROKER"])
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    task_default_queue="bare",
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)


@app.task(name="bare.count", ignore_result=True)
def count() -> None:
    """Says that it ran, so that the end can be seen from outside: one INCR on the broker."""
    with app.connection_for_write() as connection:
        connection.default_channel.client.incr("bare:done")
