"""RabbitMQ as wake-ups need it: reachable, and with quorum queues that we may declare."""

import asyncio

from ops.doctor.checks import Check, error_line
from ops.doctor.tls import tls_advice, tls_fault
from workers.broker.url import Broker

_RABBITMQ_CHECK = "rabbitmq"
_RABBITMQ_ADVICE = "start RabbitMQ there, or correct UNATTENDED_REDIS_URL"


async def check_rabbitmq(broker: Broker) -> list[Check]:
    return await asyncio.to_thread(_check_rabbitmq_server, broker)


def _check_rabbitmq_server(broker: Broker) -> list[Check]:
    from workers.broker.rabbitmq import NoQuorumQueueError, NotAllowedError, probe_rabbitmq

    try:
        version = probe_rabbitmq(broker)
    except NotAllowedError as error:
        return [Check(_RABBITMQ_CHECK, "problem", f"{broker.redacted_url}: {error_line(error)}", _access_advice(broker, error))]
    except NoQuorumQueueError as error:
        advice = "use RabbitMQ 3.8 or newer, where quorum queues are not switched off"
        return [Check("rabbitmq quorum queues", "problem", f"{broker.redacted_url}: {error_line(error)}", advice)]
    except OSError as error:
        found = f"{broker.redacted_url}: {tls_fault(error) or error_line(error)}"
        return [Check(_RABBITMQ_CHECK, "problem", found, tls_advice(error) or _RABBITMQ_ADVICE)]
    return [
        Check(_RABBITMQ_CHECK, "ok", f"RabbitMQ {version} at {broker.redacted_url}"),
        Check("rabbitmq quorum queues", "ok", "declared one and deleted it"),
    ]


def _access_advice(broker: Broker, error: Exception) -> str:
    if "Login was refused" in str(error):
        return "correct user and password in UNATTENDED_REDIS_URL"
    return f"give the user of UNATTENDED_REDIS_URL access to the virtual host {broker.path}: configure, write, read"
