"""The command line: one verb a file. Each verb module has `register(app)`.

Errors privquant raises on purpose end in one plain line on standard error and exit code 2.
"""

from __future__ import annotations

import sys
from importlib import import_module

from privquant import __version__
from privquant.errors import MissingDependency, PrivquantError

# In the order `--help` shows them.
_VERBS = ("estimate", "account", "audit", "answer")


def main() -> None:
    """Entry point of the `privquant` command."""
    try:
        import typer
        from typer.main import get_command
    except ImportError:
        print(f"privquant: {MissingDependency('the command line', 'typer', 'cli')}", file=sys.stderr)
        raise SystemExit(2) from None

    app = typer.Typer(
        name="privquant",
        help="Quantiles of data that never leaves its owner: one bit a user, through a biased coin.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(value: bool) -> None:
        if value:
            print(f"privquant {__version__}")
            raise typer.Exit()

    @app.callback()
    def root(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Show the version."
        ),
    ) -> None:
        pass

    for verb in _VERBS:
        import_module(f"privquant.cli.{verb}").register(app)
    try:
        get_command(app)()
    except PrivquantError as error:
        print(f"privquant: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:
        raise SystemExit(1) from None
