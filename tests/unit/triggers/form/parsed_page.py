"""A page as a browser's parser sees it: its elements in order, and the text in each."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

from starlette.responses import Response
from typing_extensions import override

_WITHOUT_END = {"input", "meta"}


@dataclass(slots=True)
class Element:
    tag: str
    attributes: dict[str, str]
    text: str = ""
    path: tuple[str, ...] = field(default=(), repr=False)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in <{tag}>"
        path = tuple(each.tag for each in self._open)
        element = Element(tag, {name: value or "" for name, value in attrs}, path=path)
        self.elements.append(element)
        if tag not in _WITHOUT_END:
            self._open.append(element)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> ends nothing"
        assert self._open.pop().tag == tag

    @override
    def handle_data(self, data: str) -> None:
        for each in self._open:
            each.text += data


@dataclass(frozen=True, slots=True)
class ParsedPage:
    elements: list[Element]

    def all(self, *tags: str) -> list[Element]:
        return [each for each in self.elements if each.tag in tags]

    def one(self, tag: str) -> Element:
        [found] = self.all(tag)
        return found

    def by_id(self, id_: str) -> Element:
        [found] = [each for each in self.elements if each.attributes.get("id") == id_]
        return found

    @property
    def controls(self) -> list[Element]:
        return [each for each in self.all("input", "select", "textarea") if each.attributes.get("type") != "hidden"]

    def control(self, name: str) -> Element:
        [found] = [each for each in self.controls if each.attributes["name"] == name]
        return found


def parse_response(response: Response) -> ParsedPage:
    return parse_html(bytes(response.body).decode())


def parse_html(text: str) -> ParsedPage:
    parser = _Parser()
    parser.feed(text)
    parser.close()
    return ParsedPage(parser.elements)
