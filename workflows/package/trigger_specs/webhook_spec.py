"""The spec of webhooks: how calls are verified, and which calls start runs."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, model_validator

from workflows.package.trigger_specs.base_spec import BaseTrigger
from workflows.package.trigger_specs.spec_field_types import Duration, Expression, MappedValue, Spec, SpecFieldError

Scheme = Literal["standard", "svix", "github", "stripe", "slack", "hmac", "bearer", "basic", "none"]
BodyKind = Literal["json", "form", "text"]
_SECRET_SCHEMA: dict[str, Any] = {"type": ["string", "array"], "description": "env:NAME or file:PATH; a list rotates"}
_RATE = re.compile(r"([1-9][0-9]{0,6})/(s|m|h)")
_SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3600}
HEADER_PATTERN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Fields of a single scheme. With another scheme they would silently have no effect.
_SCHEME_FIELDS = {
    "hmac": ("header", "algorithm", "encoding", "prefix", "timestamp_header", "signed", "id_header"),
    "bearer": ("header", "prefix"),
    "basic": ("username",),
    "none": ("even_in_production",),
}
MAX_TOLERANCE = timedelta(days=1)  # a replayed delivery must find its first run; delivery ids are kept for a week
_ALL_SCHEME_FIELDS = frozenset(field for fields in _SCHEME_FIELDS.values() for field in fields)


class Verification(Spec):
    """How the signature of a call is verified.

    `secret` lists references; several allow a rotation.
    """

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
            raise SpecFieldError("secret", "scheme none has no secret; remove secret, or name another scheme")
        if self.scheme != "none" and not self.secret:
            raise SpecFieldError("secret", "is required; write env:NAME or file:PATH")
        if any(not reference.startswith(("env:", "file:")) for reference in self.secret):
            raise SpecFieldError("secret", "write env:NAME or file:PATH, never the secret itself")
        return self

    @model_validator(mode="after")
    def _check_tolerance(self) -> "Verification":
        if not timedelta(seconds=1) <= self.tolerance <= MAX_TOLERANCE:
            raise SpecFieldError("tolerance", "write a duration from 1s to 1d; 300s is usual")
        return self

    @model_validator(mode="after")
    def _check_scheme_fields(self) -> "Verification":
        foreign = self.model_fields_set & _ALL_SCHEME_FIELDS - set(_SCHEME_FIELDS.get(self.scheme, ()))
        if foreign:
            raise SpecFieldError(min(foreign), f"has no effect with scheme {self.scheme}; remove it")
        if self.scheme == "hmac":
            self._check_hmac()
        if self.scheme == "basic" and not self.username:
            raise SpecFieldError("username", "is required by scheme basic")
        for field in ("header", "timestamp_header", "id_header"):
            name = getattr(self, field)
            if name is not None and not HEADER_PATTERN.fullmatch(name):
                raise SpecFieldError(field, "is not the name of a header")
        return self

    def _check_hmac(self) -> None:
        if self.header is None:
            raise SpecFieldError("header", "is required by scheme hmac: the header with the signature")
        signed = self.signed_template
        if "{body}" not in signed or re.sub(r"\{(body|timestamp|id)\}", "", signed).count("{"):
            raise SpecFieldError("signed", "must contain {body}; may contain {timestamp}, {id} and plain text")
        if (self.timestamp_header is not None) is not ("{timestamp}" in signed):
            raise SpecFieldError(
                "signed", "an unsigned timestamp does not prevent replay: use timestamp_header and {timestamp}, or none"
            )
        if "{id}" in signed and self.id_header is None:
            raise SpecFieldError("id_header", "is required, since `signed` contains {id}")

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
    rate: str | None = Field(default=None, description="Calls per app, such as 60/m; default: no limit")

    @model_validator(mode="after")
    def _check_rate(self) -> "WebhookSpec":
        if self.rate is not None and not _RATE.fullmatch(self.rate):
            raise SpecFieldError("rate", "write a number of calls per s, m or h, such as 60/m")
        return self

    @property
    def body_kinds(self) -> tuple[BodyKind, ...]:
        """Returns the accepted kinds.

        Slack sends events as JSON and clicks as forms, so its default is both.
        """
        if self.verify.scheme == "slack" and "accept" not in self.model_fields_set:
            return ("json", "form")
        return self.accept

    @property
    def rate_limit(self) -> tuple[int, int] | None:
        """Returns the number of calls and the seconds that they may take."""
        match = _RATE.fullmatch(self.rate or "")
        return None if match is None else (int(match[1]), _SECONDS_BY_UNIT[match[2]])
