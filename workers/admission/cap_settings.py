"""Caps: the maximum of concurrent runs of an app or workflow, and of starts of an app in a time.

They are written as one line: `app=20,app:acme=50,workflow:DailyDigest=3,rate=60/m,rate:acme=10/s`. A cap for a name
overrides the general one. Without caps no run is held.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.store.limit_name import LimitKind, LimitName
from workers.store.rate import Rate

_SECONDS = {"s": 1, "m": 60, "h": 3600}
_ENTRY = re.compile(r"(app|workflow|rate)(?::([^\s,=]{1,200}))?=([1-9][0-9]{0,8})(?:/([smh]))?")


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps by kind and name. The name "" applies to all names without a cap of their own.

    `text` is the line that they were parsed from.
    """

    concurrency: Mapping[tuple[str, str], int] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)
    text: str = ""

    def app_cap(self, app_id: str) -> int | None:
        return self.concurrency.get(("app", app_id), self.concurrency.get(("app", "")))

    def workflow_cap(self, workflow: str) -> int | None:
        return self.concurrency.get(("workflow", workflow), self.concurrency.get(("workflow", "")))

    def caps_for(self, app_id: str, workflow: str) -> dict[LimitName, int]:
        """Returns the caps that a run of this app and workflow counts against, with their sizes."""
        caps = {
            LimitName(LimitKind.APP, app_id): self.app_cap(app_id),
            LimitName(LimitKind.WORKFLOW, workflow): self.workflow_cap(workflow),
        }
        return {limit: cap for limit, cap in caps.items() if cap is not None}

    def rate_for(self, app_id: str) -> Rate | None:
        return self.rates.get(app_id, self.rates.get(""))

    def __bool__(self) -> bool:
        return bool(self.concurrency or self.rates)

    def __str__(self) -> str:
        return self.text


def parse_caps(text: str) -> Caps:
    concurrency: dict[tuple[str, str], int] = {}
    rates: dict[str, Rate] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _ENTRY.fullmatch(entry)
        if match is None or (match[1] == "rate") != (match[4] is not None):
            raise ValueError("caps such as app=20,app:acme=50,workflow:DailyDigest=3,rate=60/m,rate:acme=10/s")
        kind, name, count = match[1], match[2] or "", int(match[3])
        if (kind, name) in concurrency or (kind == "rate" and name in rates):
            raise ValueError(f"{kind}{':' + name if name else ''} only once")
        if kind == "rate":
            rates[name] = Rate(count, _SECONDS[match[4]])
        else:
            concurrency[kind, name] = count
    return Caps(concurrency, rates, text.strip())
