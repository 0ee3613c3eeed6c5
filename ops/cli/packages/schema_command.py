"""`unattended packages schema`: the JSON Schemas of package files."""

from pathlib import Path

import click

from ops.cli.command import command
from ops.cli.output import print_json
from ops.presenters.amounts import pluralize
from workflows.package.schemas.package_schemas import SCHEMA_NAMES, build_schema


@command(
    "schema",
    examples=["unattended packages schema agents", "unattended packages schema --output schemas"],
    related=["validate", "packages show"],
)
@click.argument("file", required=False, type=click.Choice(SCHEMA_NAMES))
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write <file>.schema.json into this directory instead of printing.",
)
def export_schema(file: str | None, output: Path | None) -> None:
    """Prints the JSON Schema of one package file, or of all.

    \b
    For an editor with YAML support, put this into the first line of a file, with the path relative to that file:
      # yaml-language-server: $schema=../../schemas/agents.schema.json
    """
    names = [file] if file else list(SCHEMA_NAMES)
    if output is None:
        print_json(build_schema(file) if file else {name: build_schema(name) for name in names})
        return
    import json

    try:
        output.mkdir(parents=True, exist_ok=True)
        for name in names:
            text = json.dumps(build_schema(name), indent=2, ensure_ascii=False)
            (output / f"{name}.schema.json").write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(
            f"{error.filename} cannot be written: {error.strerror}", param_hint="--output"
        ) from None
    click.echo(f"wrote {pluralize(len(names), 'schema')} to {output}", err=True)
