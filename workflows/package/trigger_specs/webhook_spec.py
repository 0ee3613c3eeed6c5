"""A signed HTTP call as a trigger: who may call, and which of the calls count."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, model_validator

from workflows.package.trigger_specs.base_trigger import BaseTrigger
from workflows.package.trigger_specs.spec_values import Duration, Expression, MappedValue, Spec, SpecFieldError

Scheme = Literal["standard", "svix", "github", "stripe", "slack", "hmac", "bearer", "basic", "none"]
BodyKind = Literal["json", "form", "text"]
_SECRET_SCHEMA: dict[str, Any] = {"type": ["string", "array"], "description": "env:NAME or file:PATH; a list rotates"}
_RATE = re.compile(r"([1-9][0-9]{0,6})/(s|m|h)")
_SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3600}
HEADER_PATTERN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# What only one scheme reads; given for another one it would be silently without effect.
_SCHEME_FIELDS = {
    "hmac": ("header", "algorithm", "encoding", "prefix", "timestamp_header", "signed", "id_header"),
    "bearer": ("header", "prefix"),
    "basic": ("username",),
    "none": ("even_in_production",),
}
MAX_TOLERANCE = timedelta(days=1)  # delivery ids are kept for a week, and a replay must find its first run
_ALL_SCHEME_FIELDS = frozenset(field for fields in _SCHEME_FIELDS.values() for field in fields)


class Verification(Spec):
    """`secret` lists references; several make a rotation. Each scheme's own fields follow."""

    scheme: Scheme
    secret: Annotated[tuple[str, ...], WithJsonSchema(_SECRET_SCHEMA)] = ()
    tolerance: Duration = Field(default=timedelta(seconds=300), json_schema_extra={"default": "300s"})
    header: str | None = Field(default=None, description="hmac: of the signature; bearer: instead of Authorization")
    algorithm: Literal["sha256", "sha512", "sha1"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"
    prefix: str | None = Field(default=None, description="Before the signature or the token, such as sha256=")
    timestamp_header: str | None = Field(default=None, description="Unix seconds; must be part of what is signed")
    signed: str | None = Field(default=None, description="What is signed, such as {timestamp}.{body}")
    id_header: str | None = Field(default=None, description="Names the delivery, for deduplication")
    username: str | None = None
    even_in_production: bool = False

    @model_validator(mode="before")
    @classmethod
    def _wrap_single_secret(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("secret"), str):
            return {**data, "secret": (data["secret"],)}
        return data

    @model_validator(mode="after")
    def _check_references(self) -> "Verification":
        if self.scheme == "none" and self.secret:
            raise SpecFieldError("secret", "scheme none verifies nothing; leave secret out, or name a scheme")
        if self.scheme != "none" and not self.secret:
            raise SpecFieldError("secret", "is needed; write env:NAME or file:PATH")
        if any(not reference.startswith(("env:", "file:")) for reference in self.secret):
            raise SpecFieldError("secret", "write env:NAME or file:PATH, never the secret itself")
        return self

    @model_validator(mode="after")
    def _check_tolerance(self) -> "Verification":
        if not timedelta(seconds=1) <= self.tolerance <= MAX_TOLERANCE:
            raise SpecFieldError("tolerance", "write a duration from 1s to 1d; clocks differ by seconds, 300s is usual")
        return self

    @model_validator(mode="after")
    def _check_scheme_fields(self) -> "Verification":
        foreign = self.model_fields_set & _ALL_SCHEME_FIELDS - set(_SCHEME_FIELDS.get(self.scheme, ()))
        if foreign:
            raise SpecFieldError(min(foreign), f"means nothing to scheme {self.scheme}; leave it out")
        if self.scheme == "hmac":
            self._check_hmac()
        if self.scheme == "basic" and not self.username:
            raise SpecFieldError("username", "is needed by scheme basic")
        for field in ("header", "timestamp_header", "id_header"):
            name = getattr(self, field)
            if name is not None and not HEADER_PATTERN.fullmatch(name):
                raise SpecFieldError(field, "is no name of a header")
        return self

    def _check_hmac(self) -> None:
        if self.header is None:
            raise SpecFieldError("header", "is needed by scheme hmac: the header that carries the signature")
        signed = self.signed_template
        if "{body}" not in signed or re.sub(r"\{(body|timestamp|id)\}", "", signed).count("{"):
            raise SpecFieldError("signed", "write {body} in it, and beside it only {timestamp}, {id} and plain text")
        if (self.timestamp_header is not None) is not ("{timestamp}" in signed):
            raise SpecFieldError("signed", "a timestamp guards against replay only when it is signed: use both or none")
        if "{id}" in signed and self.id_header is None:
            raise SpecFieldError("id_header", "is needed, since `signed` has {id} in it")

    @property
    def signed_template(self) -> str:
        if self.signed is not None:
            return self.signed
        return "{body}" if self.timestamp_header is None else "{timestamp}.{body}"


class WebhookSpec(BaseTrigger):
    type: Literal["webhook"] = "webhook"
    verify: Verification
    when: Expression | None = None
    dedupe: MappedValue = None
    accept: tuple[BodyKind, ...] = Field(default=("json",), min_length=1, description="Kinds of bodies")
    rate: str | None = Field(default=None, description="Calls of one app, such as 60/m; off by default")

    @model_validator(mode="after")
    def _check_rate(self) -> "WebhookSpec":
        if self.rate is not None and not _RATE.fullmatch(self.rate):
            raise SpecFieldError("rate", "write a number of calls and s, m or h, such as 60/m")
        return self

    @property
    def body_kinds(self) -> tuple[BodyKind, ...]:
        """Slack sends events as JSON, and commands and clicks as forms: both, unless the author says otherwise."""
        if self.verify.scheme == "slack" and "accept" not in self.model_fields_set:
            return ("json", "form")
        return self.accept

    @property
    def rate_limit(self) -> tuple[int, int] | None:
        """So many calls in so many seconds."""
        match = _RATE.fullmatch(self.rate or "")
        return None if match is None else (int(match[1]), _SECONDS_BY_UNIT[match[2]])
