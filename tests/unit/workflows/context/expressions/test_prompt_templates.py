"""Prompt templates: what is filled in a prompt, and what stays unchanged."""

from typing import Any

import pytest

from workflows.context.expressions.prompt_templates import fill_prompt

SEEN = ("tier", "order", "note", "empty", "my-name")
VALUES: dict[str, Any] = {
    "tier": "gold",
    "order": {"total": 12},
    "note": "one\ntwo",
    "empty": None,
    "my-name": "${tier}",
    "hidden": "secret",
    "name": "x",
}


@pytest.mark.design("D1-64")
@pytest.mark.parametrize(
    ("prompt", "filled"),
    [
        ("Tier {tier}, {{tier}}, {{ tier }}, ${tier}, ${ tier }.", "Tier gold, gold, gold, gold, gold."),
        ("{order} of {my-name}", '{"total": 12} of ${tier}'),
        ("Note: {note}", r'Note: "one\ntwo"'),
        ("[{empty}]", "[]"),
        ("{hidden} {{hidden}} ${hidden} {unknown}", "{hidden} {{hidden}} ${hidden} {unknown}"),
        ('{"tier": {tier}, "x": {}}', '{"tier": gold, "x": {}}'),
        ("{ tier } {tier.x} {tier[0]} {0} {{}} $tier {tier", "{ tier } {tier.x} {tier[0]} {0} {{}} $tier {tier"),
        ("{{{tier}}}", "{gold}"),
        ("{tier}\n```\n{tier} ${tier}\n```\n{tier}", "gold\n```\n{tier} ${tier}\n```\ngold"),
        ("{tier}\n```python\n{tier}", "gold\n```python\n{tier}"),
        ("```\n{tier}\n```", "```\n{tier}\n```"),
        ("~~~\n{tier}\n```\n{tier}\n~~~\n{tier}", "~~~\n{tier}\n```\n{tier}\n~~~\ngold"),
        ("````\n```\n{tier}\n````\n{tier}", "````\n```\n{tier}\n````\ngold"),
        ("- so:\n    ```json\n    {tier}\n    ```\n{tier}", "- so:\n    ```json\n    {tier}\n    ```\ngold"),
        ("Use ``` for {tier}; ```{tier}``` is no fence", "Use ``` for gold; ```gold``` is no fence"),
    ],
)
def test_names_that_the_agent_sees_are_filled_outside_of_code(prompt: str, filled: str) -> None:
    assert fill_prompt(prompt, SEEN, VALUES) == filled


def test_a_value_is_one_line_that_is_cut() -> None:
    assert fill_prompt("{tier}", ["tier"], {"tier": "x" * 8_001}) == "x" * 8_000 + "… (cut)"
    assert fill_prompt("{tier}", ["tier"], {"tier": "a\u2028{name}", "name": "no"}) == '"a\\u2028{name}"'


def test_an_agent_that_sees_nothing_has_its_prompt_as_written() -> None:
    prompt = "{tier} ${order} {{note}}"
    assert fill_prompt(prompt, (), VALUES) is prompt
