"""`python -m studies NAME`: one study, measured anew."""

from __future__ import annotations

import typer

from privquant.cli import run
from studies.cli.calibration import calibration
from studies.cli.paper import paper
from studies.cli.published import published
from studies.cli.tables import coverage, liars, search

COMMANDS = (paper, published, search, coverage, liars, calibration)


def app() -> typer.Typer:
    """All studies as commands."""
    made = typer.Typer(
        help="The evidence behind privquant, measured anew. Run in the root of the repository.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in COMMANDS:
        made.command()(command)
    return made


if __name__ == "__main__":
    run(app(), "python -m studies")
