"""`headway completion`: the script that completes commands, options and filters in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

PLACES = {
    "bash": "~/.bashrc",
    "zsh": "~/.zshrc",
    "fish": "~/.config/fish/completions/headway.fish",
}


@click.command(
    help="Print the completion script for a shell.\n\n"
    + "\n\n".join(
        f"{shell}: headway completion {shell} >> {file}" for shell, file in PLACES.items()
    )
)
@click.argument("shell", type=click.Choice(list(PLACES)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    maker = get_completion_class(shell)
    assert maker is not None
    root = context.find_root()
    script = maker(root.command, {}, "headway", "_HEADWAY_COMPLETE")
    click.echo(script.source_template % script.source_vars())
