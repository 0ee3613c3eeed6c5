"""`unattended enqueue`: usage errors, without a store."""

import pytest
from click.testing import CliRunner

from ops.cli.runs.enqueue_command import enqueue


@pytest.mark.parametrize("app_id", ["", "a\nb", "\x1b[31mred", "a" * 201], ids=["empty", "lines", "escape", "long"])
def test_an_app_has_a_name_that_the_api_and_budgets_take_too(app_id: str) -> None:
    result = CliRunner().invoke(enqueue, ["Digest", "--app", app_id])

    assert result.exit_code == 2
    assert "'--app': must be printable text of at most 200 characters" in result.output
