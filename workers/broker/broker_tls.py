"""TLS to the broker: checks the certificate unless an option turns that off."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.broker.option_parsers import parse_bool

_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def _parse_verify(raw: str) -> str:
    word = raw.removeprefix("CERT_").lower()
    if word not in _VERIFY:
        raise ValueError(f"one of {', '.join(sorted(_VERIFY))}")
    return word


def _parse_file(raw: str) -> str:
    path = Path(raw).expanduser()
    if not path.is_file():
        raise ValueError("the path of an existing file")
    return str(path)


TLS_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "ssl_cert_reqs": _parse_verify,
    "ssl_ca_certs": _parse_file,
    "ssl_certfile": _parse_file,
    "ssl_keyfile": _parse_file,
    "ssl_check_hostname": parse_bool,
}


@dataclass(frozen=True, slots=True)
class Tls:
    verify: str
    ca_certs: str | None
    certfile: str | None
    keyfile: str | None
    check_hostname: bool

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "Tls":
        verify = options.get("ssl_cert_reqs", "required")
        certfile, keyfile = options.get("ssl_certfile"), options.get("ssl_keyfile")
        if keyfile and not certfile:
            raise ValueError("the option ssl_keyfile needs ssl_certfile, the certificate of that key")
        check_hostname = options.get("ssl_check_hostname", True) and verify != "none"
        return cls(verify, options.get("ssl_ca_certs"), certfile, keyfile, check_hostname)

    def for_redis(self) -> dict[str, Any]:
        """Returns the options of redis-py, which kombu passes on."""
        return {
            "ssl_cert_reqs": self.verify,
            "ssl_ca_certs": self.ca_certs,
            "ssl_certfile": self.certfile,
            "ssl_keyfile": self.keyfile,
            "ssl_check_hostname": self.check_hostname,
        }

    def for_amqp(self) -> dict[str, Any]:
        """Returns the options of py-amqp.

        It checks the host name only if it gets one; kombu fills in the host.
        """
        options = {
            "cert_reqs": _VERIFY[self.verify],
            "ca_certs": self.ca_certs,
            "certfile": self.certfile,
            "keyfile": self.keyfile,
        }
        return options | ({"server_hostname": None} if self.check_hostname else {})
