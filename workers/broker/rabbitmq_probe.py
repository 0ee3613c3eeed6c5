"""The probe of a RabbitMQ: can we reach it, and declare a quorum queue there?"""

from typing import Any
from uuid import uuid4

from amqp.exceptions import AccessRefused, AMQPError, NotAllowed
from kombu import Connection

from workers.broker.broker_url import Broker
from workers.broker.options import rabbitmq_config

_TIMEOUT_S = 2.0


class NotAllowedError(Exception):
    """RabbitMQ rejects the login, or the user lacks a permission."""


class NoQuorumQueueError(Exception):
    """The login works, but quorum queues are not available."""


def probe_rabbitmq(broker: Broker) -> str:
    """Returns the version.

    Raises OSError if it cannot be reached, or one of the errors above.
    """
    config = rabbitmq_config(broker)
    timeouts = {"read_timeout": _TIMEOUT_S, "write_timeout": _TIMEOUT_S}
    connection: Any = Connection(
        broker.celery_url,
        ssl=config["broker_use_ssl"],
        login_method=config["broker_login_method"],
        connect_timeout=_TIMEOUT_S,
        transport_options=timeouts,
    )
    try:
        connection.connect()
        _declare(connection)
        return str(connection.connection.server_properties.get("version", "of unknown version"))
    except (AccessRefused, NotAllowed) as error:
        raise NotAllowedError(_error_text(error)) from error
    except AMQPError as error:
        raise NoQuorumQueueError(_error_text(error)) from error
    finally:
        connection.collect()


def _declare(connection: Any) -> None:
    name = f"unattended_doctor_{uuid4().hex}"
    with connection.channel() as channel:
        # Expires by itself if this process dies before the delete.
        kind = {"x-queue-type": "quorum", "x-expires": 60_000}
        channel.queue_declare(name, durable=True, exclusive=False, auto_delete=False, arguments=kind)
        channel.queue_delete(name)


def _error_text(error: AMQPError) -> str:
    return str(getattr(error, "reply_text", "") or error)
