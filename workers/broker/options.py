"""What Celery is told about the broker, per kind of broker; every setting stands with its reason."""

from typing import Any

from kombu.transport import redis as kombu_redis

from workers.broker.broker_url import Broker

SOCKET_TIMEOUT_S = 5


def broker_config(broker: Broker) -> dict[str, Any]:
    by_kind = rabbitmq_config if broker.kind == "amqp" else redis_config
    return {
        "broker_url": broker.celery_url,
        "broker_connection_retry_on_startup": True,  # roles may start before the broker does
        "broker_connection_max_retries": None,  # Celery would give up after a hundred, and the worker would exit
        # Also after an error that is an answer: a Redis that became a replica says UNBLOCKED to a worker that waits
        # for messages, one that starts says LOADING. The worker connects again instead of exiting.
        "broker_channel_error_retry": True,
        **by_kind(broker),
    }


def redis_config(broker: Broker) -> dict[str, Any]:
    """`visibility_timeout` is left alone: messages are acknowledged on receipt, so it concerns only those that a
    worker was killed with, and the reconciler is faster. The priority steps too: whose turn it is, the store says."""
    enable_health_checks()
    given = dict(broker.options)
    options: dict[str, Any] = {
        "socket_timeout": SOCKET_TIMEOUT_S,  # without it a publish to a frozen Redis never returns
        "socket_connect_timeout": SOCKET_TIMEOUT_S,
        "socket_keepalive": True,  # a peer that vanished without a word is noticed by the kernel
        "health_check_interval": 10,  # silent for so long, it is tried before use; leave_silent_redis counts from here
    }
    if broker.kind == "sentinel":
        options["sentinel_kwargs"] = sentinel_connection(broker)
    given = {name: value for name, value in given.items() if name not in {"sentinel_username", "sentinel_password"}}
    return {
        "broker_transport_options": {**options, **given},
        "broker_use_ssl": broker.tls.for_redis() if broker.tls else False,
        "worker_disable_prefetch": True,  # a wake-up a busy worker holds is one an idle worker cannot see
    }


def sentinel_connection(broker: Broker) -> dict[str, Any]:
    """How to talk to a Sentinel itself. Short timeouts: the next one is asked when one does not answer."""
    login = {
        "username": broker.options.get("sentinel_username"),
        "password": broker.options.get("sentinel_password"),
    }
    encrypted = {"ssl": True, **broker.tls.for_redis()} if broker.tls else {}
    return {"socket_timeout": 1, "socket_connect_timeout": 1, **login, **encrypted}


def rabbitmq_config(broker: Broker) -> dict[str, Any]:
    """`consumer_timeout` needs no thought: it closes channels that hold a message for long, and ours are acknowledged
    before the work begins."""
    return {
        "broker_transport_options": {
            "confirm_publish": True,  # else a publish to a broker that is going down is lost in silence
            # A broker that is frozen, or blocks publishers for want of memory, is given up on.
            "read_timeout": SOCKET_TIMEOUT_S,
            "write_timeout": SOCKET_TIMEOUT_S,
        },
        "broker_use_ssl": broker.tls.for_amqp() if broker.tls else False,
        "broker_heartbeat": broker.options.get("heartbeat", 20),  # a silent peer is noticed in twice that
        "broker_login_method": broker.options.get("login_method"),  # EXTERNAL: the client's certificate is the login
        "task_default_queue_type": "quorum",  # replicated; mirrored classic queues are gone in RabbitMQ 4
        "worker_detect_quorum_queues": True,  # they refuse the global prefetch count that Celery would set
        "worker_disable_prefetch": False,  # Redis only; workers.broker.consumer does it for RabbitMQ
        # It would count upwards from our one message after each reconnect.
        "worker_enable_prefetch_count_reduction": False,
    }


def enable_health_checks() -> None:
    transport: Any = kombu_redis
    transport.accepts_argument = _accepts_option  # asked for this option only


def _accepts_option(_constructor: object, _option: str) -> bool:
    return True  # every redis-py that we may be installed with does
