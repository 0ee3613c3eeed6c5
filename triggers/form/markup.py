"""Markup: HTML that is escaped by construction: text gets into it through `element` and `joined`, and no other way."""

import html
from dataclasses import dataclass

_WITHOUT_END = frozenset({"input", "meta"})


@dataclass(frozen=True, slots=True)
class Markup:
    html: str


NOTHING = Markup("")


def element(tag: str, /, *content: Markup | str, **attributes: str | int | bool | None) -> Markup:
    """`for_` is the attribute `for`, `aria_label` is `aria-label`; True has no value, False and None leave it out."""
    given = "".join(_attribute(key.strip("_").replace("_", "-"), value) for key, value in attributes.items())
    start = f"<{tag}{given}>"
    return Markup(start if tag in _WITHOUT_END else f"{start}{join_markup(*content).html}</{tag}>")


def join_markup(*content: Markup | str) -> Markup:
    return Markup("".join(each.html if isinstance(each, Markup) else html.escape(each) for each in content))


def _attribute(name: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
