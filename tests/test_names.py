"""docs/names.md and the package, held to each other: what is on the page exists, what is exported is on it."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import privquant

PAGE = (Path(__file__).parent.parent / "docs" / "names.md").read_text()


def rows(heading):
    """The cells of the table under a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


ROOT = [names(cell)[0] for cell, _ in rows("`import privquant as pq`")]
MODULES = {names(module)[0]: names(cell) for module, cell in rows("Modules")}
COMMANDS = {names(command)[0]: names(cell) for command, cell in rows("Commands")}


def exported(module):
    """What a module offers: its `__all__`, or what a folder that has none gathers from its own files."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {
        name for name, made in vars(module).items() if getattr(made, "__module__", "").startswith(module.__name__)
    }


def undocumented(module, listed):
    """Functions and classes without a docstring of their own."""
    made = {name: getattr(module, name) for name in listed}
    return [name for name, it in made.items() if (inspect.isfunction(it) or inspect.isclass(it)) and not it.__doc__]


def parameters(made):
    """What a function or class is called with; what Python itself gives an exception is not ours to tell."""
    if inspect.isclass(made) and issubclass(made, Exception) and "__init__" not in vars(made):
        return []
    return [name for name in inspect.signature(made).parameters if name != "self"]


def told(made):
    """The names under "Parameters" of a docstring in numpydoc form, of the class or of its `__init__`."""
    found = set()
    for text in (made.__doc__, made.__init__.__doc__ if inspect.isclass(made) else None):
        lines = inspect.cleandoc(text or "").splitlines()
        if "Parameters" not in lines:
            continue
        body = lines[lines.index("Parameters") + 2 :]
        ends = [k for k, line in enumerate(body) if line and set(line) == {"-"}]
        for line in body[: ends[0] - 1] if ends else body:
            if line and not line.startswith(" "):
                found |= {name.strip(" *") for name in line.split(" : ")[0].split(",")}
    return found


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("privquant", name) for name in privquant.__all__),
        *((module, name) for module in ("privquant.lab", "privquant.privacy.shuffle") for name in MODULES[module]),
    ],
)
def test_help_shows_every_parameter(module, name):
    made = getattr(import_module(module), name)
    if inspect.isclass(made) or inspect.isfunction(made):  # texts, lists and names for annotations are neither
        assert set(parameters(made)) <= told(made), f"{name}: {set(parameters(made)) - told(made)} not told"


def test_a_parameter_that_is_not_told_is_found_out():
    """The twin: one parameter too many, in a docstring that ends in another section."""

    def made(first, second, *, third, **rest):
        """Does something.

        Parameters
        ----------
        first, third : int
            Numbers.
        **rest
            second : is not a parameter's own line.

        Returns
        -------
        second : int
        """

    assert told(made) == {"first", "third", "rest"}
    assert set(parameters(made)) - told(made) == {"second"}


def test_the_options_of_the_default_are_in_the_help_of_quantile():
    from pkgutil import resolve_name

    from privquant.protocols.registry import SHUFFLED, _options, protocol_class

    shown = privquant.quantile.__doc__
    default, shuffled = protocol_class("isotonic"), resolve_name(SHUFFLED["isotonic"])
    options = {*_options(default).split(", "), *_options(shuffled).split(", ")} - {
        "rounds"
    }  # made by the other form
    assert "interval" in options
    assert [option for option in options if f"`{option}`" not in shown] == []


@pytest.mark.parametrize("name", ["median", "quantile", "plan", "run"])
def test_the_examples_in_help_run_as_they_stand(name):
    import doctest

    found = doctest.DocTestFinder(recurse=False).find(getattr(privquant, name), name)
    results = [doctest.DocTestRunner(verbose=False).run(test) for test in found]
    assert sum(result.attempted for result in results) >= 2
    assert sum(result.failed for result in results) == 0


def test_the_page_lists_exactly_what_the_package_exports():
    assert sorted(ROOT) == sorted(privquant.__all__)
    assert len(set(ROOT)) == len(ROOT)
    assert undocumented(privquant, ROOT) == []


def test_nothing_else_shows():
    assert set(dir(privquant)) - set(ROOT) == set(privquant._FOLDERS)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(privquant.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert seen == privquant._WHERE


@pytest.mark.parametrize("name", MODULES)
def test_a_module_exports_exactly_what_the_page_says(name):
    module, listed = import_module(name), MODULES[name]
    # The registry's other names are the package's own: here stands only the path that was shown for long.
    offered = {"register"} if name == "privquant.protocols.registry" else exported(module)
    assert sorted(listed) == sorted(offered)
    assert undocumented(module, listed) == []


def test_a_name_that_is_not_there_is_found_out():
    """The twin: the page with one name too many, one too few, and a class that says nothing."""
    assert sorted([*ROOT, "mode"]) != sorted(privquant.__all__)
    assert sorted(MODULES["privquant.device"][1:]) != sorted(exported(import_module("privquant.device")))
    bare = type("Bare", (), {})
    holder = type("Holder", (), {"Bare": bare})
    assert undocumented(holder, ["Bare"]) == ["Bare"]


def test_the_verbs_are_those_of_the_command_line(monkeypatch):
    import typer
    from typer.main import get_command

    from privquant import cli

    monkeypatch.setattr("sys.argv", ["privquant"])
    app = typer.Typer()
    for verb in cli._verbs():
        cli.register(app, verb)
    top = get_command(app).commands
    groups = {name: set(made.commands) for name, made in top.items() if hasattr(made, "commands")}
    assert set(COMMANDS["privquant"]) == set(top) - set(groups)
    assert {f"privquant {name}": verbs for name, verbs in groups.items()} == {
        name: set(verbs) for name, verbs in COMMANDS.items() if name != "privquant"
    }


def test_the_formats_have_the_versions_the_page_says():
    found = re.findall(r"`(privquant\.[a-z_.]+)\.VERSION` = (\d+)", PAGE)
    assert len(found) == 3
    for module, version in found:
        assert int(version) == import_module(module).VERSION


def shown_in_docs():
    """Every `pq.name` that docs, README and examples show."""
    root = Path(__file__).parent.parent
    pages = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "examples").glob("*.py")]
    return {name for page in pages for name in re.findall(r"\bpq\.([A-Za-z_]+)", page.read_text())}


def test_docs_and_examples_use_names_that_exist():
    shown = shown_in_docs()
    assert {"median", "shuffled_search", "register"} <= shown
    assert shown <= set(ROOT) | set(privquant._FOLDERS)


def test_the_block_on_populations_runs_as_it_stands():
    """The second block of docs/protocols.md: public names alone, and what it says comes out."""
    page = (Path(__file__).parent.parent / "docs" / "protocols.md").read_text()
    known = {}
    exec(page.split("```python\n")[2].split("```")[0], known)
    assert f"# {known['found']!r}\n" in page
    assert known["found"].guarantee.trust == "shuffle"
