"""`unattended completion`: the script with which a shell completes commands, options and names."""

import click

from ops.cli.command import PROGRAM, command

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    examples=[
        "unattended completion bash >> ~/.bashrc",
        "unattended completion zsh >> ~/.zshrc",
        "unattended completion fish > ~/.config/fish/completions/unattended.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS), metavar="bash|zsh|fish")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Prints what makes your shell complete commands with Tab.

    Also options, and the names of your workflows, triggers, apps and runs, as far as they are found in half a second.
    Works from the next shell that you start; bash has to be 4.4 or newer, zsh needs `compinit` before it.
    """
    from click.shell_completion import get_completion_class

    from ops.cli.main import COMPLETE_VARIABLE

    known = get_completion_class(shell)
    if known is None:  # a shell that click has learned to do without
        raise click.BadParameter(f"this version of click knows no {shell}", param_hint="SHELL")
    click.echo(known(context.find_root().command, {}, PROGRAM, COMPLETE_VARIABLE).source(), nl=False)
