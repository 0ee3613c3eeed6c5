"""RabbitMQ as wake-ups need it: reachable, and with quorum queues that we may declare."""

import asyncio

from ops.doctor.checks import Check, one_line
from ops.doctor.tls import tls_advice, tls_fault
from workers.broker.url import Broker

_NAME = "rabbitmq"
_UNREACHABLE = "start RabbitMQ there, or correct UNATTENDED_REDIS_URL"


async def check_rabbitmq(broker: Broker) -> list[Check]:
    return await asyncio.to_thread(_check, broker)


def _check(broker: Broker) -> list[Check]:
    from workers.broker.rabbitmq import NoQuorumQueueError, NotAllowedError, examine_rabbitmq

    try:
        version = examine_rabbitmq(broker)
    except NotAllowedError as error:
        return [Check(_NAME, "problem", f"{broker.shown}: {one_line(error)}", _advice(broker, error))]
    except NoQuorumQueueError as error:
        advice = "use RabbitMQ 3.8 or newer, where quorum queues are not switched off"
        return [Check("rabbitmq quorum queues", "problem", f"{broker.shown}: {one_line(error)}", advice)]
    except OSError as error:
        found = f"{broker.shown}: {tls_fault(error) or one_line(error)}"
        return [Check(_NAME, "problem", found, tls_advice(error) or _UNREACHABLE)]
    return [
        Check(_NAME, "ok", f"RabbitMQ {version} at {broker.shown}"),
        Check("rabbitmq quorum queues", "ok", "declared one and deleted it"),
    ]


def _advice(broker: Broker, error: Exception) -> str:
    if "Login was refused" in str(error):
        return "correct user and password in UNATTENDED_REDIS_URL"
    return f"give the user of UNATTENDED_REDIS_URL access to the virtual host {broker.place}: configure, write, read"
