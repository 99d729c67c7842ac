"""The command line: one verb a file. It is the function of the file's name, with the settings in `CONTEXT` if the
file has one; or a group of that name, if the file has `COMMANDS`, the group's functions, and its `HELP`.

Errors privquant raises on purpose end in one plain line on standard error and exit code 2.
"""

import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from privquant import __version__
from privquant.errors import InvalidInput, MissingDependency, PrivquantError

# How `--help` orders the verbs; a verb module not named here comes last.
_ORDER = (
    *("demo", "estimate", "plan", "account", "audit", "policy", "answer"),
    *("serve", "campaign", "operator", "shuffler"),
    "sweep",
)

# What only the extra `service` brings: a verb that finds one of these missing says so in one line.
_SERVICE = frozenset(
    ("aiosqlite", "alembic", "asyncpg", "cryptography", "fastapi", "prometheus_client", "sqlalchemy", "uvicorn")
)


def _verbs() -> list[ModuleType]:
    """The modules of the verbs, beside this one: all, or the one that is asked for.

    A verb that is asked for loads alone, so that `privquant answer` runs where numpy cannot be imported.
    """
    names = [found.name for found in iter_modules(__path__) if not found.name.startswith("_")]
    names = [name for name in names if name in sys.argv[1:2]] or names
    names.sort(key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    return [import_module(f"{__name__}.{name}") for name in names]


def register(app: Any, verb: ModuleType) -> None:
    """Add the command, or the commands, of a verb's module."""
    import typer

    name = verb.__name__.rpartition(".")[2]
    if hasattr(verb, "COMMANDS"):
        group = typer.Typer(no_args_is_help=True, help=verb.HELP)
        for command in verb.COMMANDS:
            group.command(command.__name__.rstrip("_").replace("_", "-"))(command)
        app.add_typer(group, name=name)
    else:
        app.command(name, context_settings=getattr(verb, "CONTEXT", None))(getattr(verb, name))


def _import(module: str) -> None:
    """A module that the user names; it usually lies where the command is run."""
    sys.path.insert(0, os.getcwd())
    try:
        import_module(module)
    except (ImportError, ValueError, TypeError) as error:
        raise InvalidInput(f"--import takes the name of a module, got {module!r}: {error}") from error


def main() -> None:
    """Entry point of the `privquant` command."""
    try:
        import typer
    except ImportError:
        print(f"privquant: {MissingDependency('the command line', 'typer', 'cli')}", file=sys.stderr)
        raise SystemExit(2) from None

    app = typer.Typer(
        name="privquant",
        help="Quantiles of data that never leaves its owner: one bit a user, through a biased coin.",
        no_args_is_help=True,
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
        modules: list[str] = typer.Option(
            [], "--import", metavar="MODULE", help="Import this first, e.g. one that registers a protocol; repeat."
        ),
    ) -> None:
        for module in modules:
            _import(module)

    for verb in _verbs():
        register(app, verb)
    run(app, "privquant")  # also as `python -m privquant`; completion goes by the name


def run(app: Any, name: str) -> None:
    """Run the commands of an app; what privquant refuses ends in one line after the app's name."""
    from typer.main import get_command

    try:
        get_command(app)(prog_name=name)
    except PrivquantError as error:
        print(f"{name}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _SERVICE:
            raise
        missing = MissingDependency(f"{name} {sys.argv[1]}", error.name.split(".")[0], "service")
        print(f"{name}: {missing}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:
        raise SystemExit(1) from None
