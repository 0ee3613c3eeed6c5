from pathlib import Path

import pytest

from workers.broker.broker_url import parse_broker_url
from workers.broker.options import broker_config
from workers.celery import configure
from workers.settings import Settings, SettingsError


@pytest.mark.parametrize(
    ("url", "celery_url"),
    [
        ("redis://h", "redis://h:6379/0"),
        ("redis://h:1/2", "redis://h:1/2"),
        ("redis://:p%40w@h/0", "redis://:p%40w@h:6379/0"),
        ("redis://[::1]:1/0", "redis://[::1]:1/0"),
        ("rediss://user:pw@h/0", "rediss://user:pw@h:6379/0"),
        ("sentinel://h?master_name=m", "sentinel://h:26379/0"),
        ("sentinel://a:1;sentinel://:pw@b:2/3?master_name=m", "sentinel://:pw@a:1/3;sentinel://:pw@b:2/3"),
        ("sentinel://a,b/3?master_name=m", "sentinel://a:26379/3;sentinel://b:26379/3"),
        ("amqp://u:p@h", "amqp://u:p@h:5672/%2F"),
        ("amqp://h//", "amqp://h:5672/%2F"),
        ("amqps://h/jobs", "amqps://h:5671/jobs"),
    ],
)
def test_a_url_reaches_celery_with_every_host_complete_and_without_options(url: str, celery_url: str) -> None:
    assert broker_config(parse_broker_url(url))["broker_url"] == celery_url


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "it must begin with one of redis://"),
        ("http://h", "it must begin with one of redis://"),
        ("redis://h?socket_timout=1", "there is no option socket_timout; there are global_keyprefix,"),
        ("redis://h?socket_timeout=soon", "the option socket_timeout must be a number of seconds"),
        ("redis://h?visibility_timeout=0", "the option visibility_timeout must be a whole number of at least 1"),
        ("redis://h?max_connections=", "the option max_connections must be"),
        ("redis://h?socket_timeout=1&socket_timeout=2", "socket_timeout is named twice"),
        ("redis://h?ssl_ca_certs=ca.pem", "is for encrypted connections; begin with rediss://"),
        ("rediss://h?ssl_ca_certs=/nowhere/ca.pem", "the option ssl_ca_certs must be the path of an existing file"),
        ("rediss://h?ssl_cert_reqs=maybe", "the option ssl_cert_reqs must be one of none, optional, required"),
        ("rediss://h?ssl_keyfile=/etc/hostname", "ssl_keyfile needs ssl_certfile"),
        ("redis://a;redis://b", "redis:// takes one host"),
        ("sentinel://h", "needs the option master_name"),
        ("sentinel://a;amqp://b?master_name=m", "all its hosts must begin with sentinel://"),
        ("sentinel://:x@a;sentinel://:y@b?master_name=m", "its hosts name more than one password"),
        ("redis://h/jobs", "must be the number of a database"),
        ("redis://h:99999", "write each host as host:port"),
        ("amqp://h?visibility_timeout=1", "there is no option visibility_timeout; there are heartbeat"),
    ],
)
def test_a_url_that_cannot_be_used_is_one_sentence_that_names_the_fault(url: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=r"^UNATTENDED_REDIS_URL: ") as error:
        parse_broker_url(url)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@h/0?nonsense=1",
        "redis://:hun?ter2=hunter2@h/0",
        "redis://:hun@hunter2@h/0",
        "redis://:hun/hunter2@h/0",
        "redis://:hun#hunter2@h/0",
        "redis://:hunter2:@h:x/0",
        "redis://u:hun;hunter2@h/0",
        "sentinel://h?sentinel_password=hunter2",
        "sentinel://h?master_name=m&sentinel_password=hunter2@x",
        "http://:hunter2@h",
    ],
)
def test_no_password_is_in_an_error(url: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_broker_url(url)
    assert "hunter2" not in str(error.value)


def test_no_password_is_shown() -> None:
    broker = parse_broker_url("sentinel://u:hunter2@h/1?master_name=m&sentinel_password=hunter2")

    assert broker.redacted_url == "sentinel://u:***@h:26379/1"
    assert "hunter2" not in repr(broker)


def test_a_role_does_not_start_with_such_a_url() -> None:
    with pytest.raises(SettingsError, match="master_name"):
        configure(Settings(redis_url="sentinel://h"))


def test_certificates_are_checked_unless_the_url_disables_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()

    strict = broker_config(parse_broker_url(f"rediss://h?ssl_ca_certs={tmp_path}/ca.pem"))["broker_use_ssl"]
    lax = broker_config(parse_broker_url("rediss://h?ssl_cert_reqs=CERT_NONE"))["broker_use_ssl"]
    amqp = broker_config(parse_broker_url("amqps://h"))["broker_use_ssl"]

    assert (strict["ssl_cert_reqs"], strict["ssl_check_hostname"]) == ("required", True)
    assert strict["ssl_ca_certs"] == f"{tmp_path}/ca.pem"
    assert (lax["ssl_cert_reqs"], lax["ssl_check_hostname"]) == ("none", False)
    assert (int(amqp["cert_reqs"]), amqp["server_hostname"]) == (2, None)
    assert broker_config(parse_broker_url("redis://h"))["broker_use_ssl"] is False


def test_sentinels_have_a_login_and_timeouts_of_their_own() -> None:
    url = "sentinel://:pw@h?master_name=m&sentinel_password=other&ssl_cert_reqs=none&socket_timeout=7"
    config = broker_config(parse_broker_url(url))
    options, to_sentinels = config["broker_transport_options"], config["broker_transport_options"]["sentinel_kwargs"]

    assert (options["master_name"], options["socket_timeout"]) == ("m", 7)
    assert "sentinel_password" not in options
    assert (to_sentinels["password"], to_sentinels["ssl"], to_sentinels["socket_timeout"]) == ("other", True, 1)


def test_redis_only_options_are_not_sent_to_rabbitmq() -> None:
    config = broker_config(parse_broker_url("amqp://h"))

    assert config["task_default_queue_type"] == "quorum"
    assert config["worker_disable_prefetch"] is False
    assert config["broker_transport_options"]["confirm_publish"] is True
    assert "health_check_interval" not in config["broker_transport_options"]
