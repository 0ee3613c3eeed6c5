"""The baseline of the webhook benchmark: a FastAPI handler that hands its payload to Celery, with nothing durable.

Both ways people write it: `/blocking` runs in FastAPI's thread pool, `/inline` publishes on the event loop.
"""

import os
from typing import Any

from celery import Celery
from fastapi import FastAPI

celery_app = Celery("bare", broker=os.environ["BARE_BROKER"])
celery_app.conf.task_ignore_result = True
celery_app.conf.broker_pool_limit = 50


@celery_app.task(name="bare.work")
def work(payload: dict[str, Any]) -> None:
    del payload


app = FastAPI()


@app.post("/blocking", status_code=202)
def blocking(payload: dict[str, Any]) -> dict[str, str]:
    return {"task_id": work.apply_async((payload,)).id}


@app.post("/inline", status_code=202)
async def inline(payload: dict[str, Any]) -> dict[str, str]:
    return {"task_id": work.apply_async((payload,)).id}
