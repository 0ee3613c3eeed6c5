"""docs/tracing.md against the code: it lists each span attribute, and no other."""

import re
from pathlib import Path

from workers.tracing import span_attributes

PAGE = Path(__file__).resolve().parents[4] / "docs" / "tracing.md"
ATTRIBUTE = re.compile(r"`((?:gen_ai|unattended)\.[a-z_.]+|error\.type)`")


def test_the_page_names_every_attribute_and_no_other() -> None:
    used = {value for name, value in vars(span_attributes).items() if name.isupper() and isinstance(value, str)}

    assert set(ATTRIBUTE.findall(PAGE.read_text(encoding="utf-8"))) - {"gen_ai."} == used
