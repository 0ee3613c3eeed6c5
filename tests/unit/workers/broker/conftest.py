"""A Redis inside the test process, over TCP, for the real clients of the product."""

import threading
from collections.abc import Iterator

import pytest
from celery import Celery
from fakeredis import TcpFakeServer

from workers.celery import celery_config
from workers.settings import load_settings

QUEUE = "wakeups"


class FakeRedis:
    """A fake Redis.

    After `stop` and `start` it has the same port and an empty database.
    """

    def __init__(self) -> None:
        self.port = 0
        self.start()

    def start(self) -> None:
        self._server = TcpFakeServer(("127.0.0.1", self.port), server_type="redis")
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def app(self) -> Celery:
        app = Celery("testing", set_as_current=False)
        settings = {"UNATTENDED_REDIS_URL": f"redis://127.0.0.1:{self.port}/0", "UNATTENDED_QUEUE": QUEUE}
        app.conf.update(celery_config(load_settings(settings)))
        return app


@pytest.fixture
def fake_redis() -> Iterator[FakeRedis]:
    server = FakeRedis()
    yield server
    server.stop()
