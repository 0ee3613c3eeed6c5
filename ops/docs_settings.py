"""The settings table of the README, generated from the settings.

Run it after a change of `workers/settings.py`: `.venv/bin/python -m ops.docs_settings`.
"""

from pathlib import Path
from typing import Any

from workers.settings import setting_fields, variable_name

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN = "<!-- settings: made by ops/docs_settings.py -->"
END = "<!-- end of settings -->"


def settings_table() -> str:
    rows = [
        f"| `{variable_name(setting)}` | {_default_text(setting)} | {setting.metadata['description']} |"
        for setting in _ordered_settings()
    ]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


def with_table(readme: str) -> str:
    """Replace the table between the two marks."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{settings_table()}\n{END}{after}"


def _ordered_settings() -> list[Any]:
    # UNATTENDED_… first, then the names that packages of other runtimes use too.
    return sorted(setting_fields(), key=lambda setting: bool(setting.metadata["name"]))


def _default_text(setting: Any) -> str:
    shown: str = setting.metadata["shown"]
    if shown:
        return shown
    if isinstance(setting.default, bool):
        return "`1`" if setting.default else "`0`"
    return f"`{setting.default}`"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
