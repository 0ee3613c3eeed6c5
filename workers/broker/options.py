"""The Celery options for each kind of broker, each with its reason."""

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
        # Also after an error reply: a Redis that became a replica replies UNBLOCKED to a worker that waits
        # for messages, a starting one LOADING. The worker reconnects instead of exiting.
        "broker_channel_error_retry": True,
        **by_kind(broker),
    }


def redis_config(broker: Broker) -> dict[str, Any]:
    """Returns the options for Redis and Sentinel.

    `visibility_timeout` keeps its default: messages are acknowledged on receipt, so it applies only to those of a
    killed worker, and the reconciler is faster. So do priority steps: the store decides the order.
    """
    enable_health_checks()
    url_options = dict(broker.options)
    options: dict[str, Any] = {
        "socket_timeout": SOCKET_TIMEOUT_S,  # without it a publish to a frozen Redis never returns
        "socket_connect_timeout": SOCKET_TIMEOUT_S,
        "socket_keepalive": True,  # the kernel notices a peer that vanished without closing
        "health_check_interval": 10,  # an idle connection is checked before use; disconnect_stalled_redis relies on it
    }
    if broker.kind == "sentinel":
        options["sentinel_kwargs"] = sentinel_connection(broker)
    url_options = {
        name: value for name, value in url_options.items() if name not in {"sentinel_username", "sentinel_password"}
    }
    return {
        "broker_transport_options": {**options, **url_options},
        "broker_use_ssl": broker.tls.for_redis() if broker.tls else False,
        "worker_disable_prefetch": True,  # a wake-up a busy worker holds is one an idle worker cannot see
    }


def sentinel_connection(broker: Broker) -> dict[str, Any]:
    """Returns the options for connections to a Sentinel itself.

    Timeouts are short: the next Sentinel is tried when one does not answer.
    """
    login = {
        "username": broker.options.get("sentinel_username"),
        "password": broker.options.get("sentinel_password"),
    }
    encrypted = {"ssl": True, **broker.tls.for_redis()} if broker.tls else {}
    return {"socket_timeout": 1, "socket_connect_timeout": 1, **login, **encrypted}


def rabbitmq_config(broker: Broker) -> dict[str, Any]:
    """Returns the options for RabbitMQ.

    `consumer_timeout` keeps its default: it closes channels that hold a message for long, and ours are acknowledged
    before the work begins.
    """
    return {
        "broker_transport_options": {
            "confirm_publish": True,  # without it a publish to a stopping broker is lost without an error
            # Gives up on a broker that is frozen, or blocks publishers for lack of memory.
            "read_timeout": SOCKET_TIMEOUT_S,
            "write_timeout": SOCKET_TIMEOUT_S,
        },
        "broker_use_ssl": broker.tls.for_amqp() if broker.tls else False,
        "broker_heartbeat": broker.options.get("heartbeat", 20),  # a silent peer is noticed in twice that
        "broker_login_method": broker.options.get("login_method"),  # EXTERNAL: the client certificate is the login
        "task_default_queue_type": "quorum",  # replicated; RabbitMQ 4 has no mirrored classic queues
        "worker_detect_quorum_queues": True,  # quorum queues reject the global prefetch count that Celery would set
        "worker_disable_prefetch": False,  # for Redis only; WakeupConsumer does it for RabbitMQ
        # Celery would raise our prefetch count of one after each reconnect.
        "worker_enable_prefetch_count_reduction": False,
    }


def enable_health_checks() -> None:
    """Makes kombu pass `health_check_interval` to every Redis connection.

    kombu passes it only if the constructor of the connection, or of a base, names it. Behind Sentinels none does, and
    from redis-py 8 on none at all, as a decorator hides the signature. Without it replies set no next health check,
    and `disconnect_stalled_redis` would disconnect from a healthy Redis.
    """
    transport: Any = kombu_redis
    transport.accepts_argument = _accepts_option  # kombu calls it for this option only


def _accepts_option(_constructor: object, _option: str) -> bool:
    return True  # each redis-py that our constraints allow has it
