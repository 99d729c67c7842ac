"""What the pages name is there: links, headings, files, modules, commands with their options, make targets."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "js" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
BASES = (ROOT, ROOT / "src", ROOT / "src/privquant", ROOT / "src/privquant/lab", ROOT / "docs")
"""Where a path on a page may start; the page on the lab leaves out the lab's own folder."""
FOLDERS = {path.name for base in (ROOT, ROOT / "src/privquant") for path in base.iterdir() if path.is_dir()}
FOLDERS -= {"out"}  # what commands write
KINDS = ("py", "mjs", "sh", "svg", "png", "md")
WRITTEN = {"median.png", "account.png"}
"""Files that a command on a page makes where it is run."""


def code(text):
    """Spans and blocks of code of a page, line by line."""
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.M | re.S)
    rest = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.M | re.S)
    indented = [line for line in rest.splitlines() if line.startswith("    ")]
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", rest)]
    return [*"\n".join(fenced).replace("\\\n", " ").splitlines(), *indented, *spans]


def anchors(text):
    """The headings of a page, as their links spell them."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(text, page):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name
        there = file.exists() if name else True
        if not there or (anchor and anchor not in anchors(file.read_text() if name else text)):
            yield target


def missing_files(text):
    names = {file.name for folder in FOLDERS for base in BASES[::2] for file in (base / folder).rglob("*.*")}
    for line in code(text):
        for word in re.findall(r"(?<![\w/.<{:*-])[\w.-]+(?:/[\w.-]+)*/?(?![\w*{<])", line):
            known = word.split("/")[0] in FOLDERS and "/" in word
            if not known and not word.endswith(tuple(f".{kind}" for kind in KINDS)):
                continue
            there = any((base / word).exists() for base in BASES)
            if not there and word not in WRITTEN and ("/" in word or word not in names):
                yield word


def missing_modules(text):
    for dotted in re.findall(r"(?<![\w./-])privquant(?:\.\w+)+", "\n".join(code(text))):
        parts, found = dotted.split("."), None
        for place in range(1, len(parts) + 1):
            try:
                found = import_module(".".join(parts[:place]))
            except ModuleNotFoundError:
                found = getattr(found, parts[place - 1], None)
            if found is None:
                yield dotted
                break


@pytest.fixture(scope="module")
def verbs():
    """Of every verb, and of every verb of a group, the options it takes."""
    import typer
    from typer.main import get_command

    from privquant import cli
    from studies.__main__ import app as studies

    app = typer.Typer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["privquant"])
        for verb in cli._verbs():
            cli.register(app, verb)
    made = {}
    for name, command in get_command(app).commands.items():
        within = {f"{name} {inner}": it for inner, it in getattr(command, "commands", {}).items()}
        for verb, it in {name: command, **within}.items():
            made[verb] = options(it)
    return made | {f"studies {name}": options(it) for name, it in get_command(studies()).commands.items()}


def options(command):
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


def wrong_commands(text, verbs):
    for line in code(text):
        begins = r"(?:^|[|;(]|\d\* +|\$ )\s*"
        found = re.findall(begins + r"(?:npx )?privquant ([^#|;>]+)", line)
        found += re.findall(begins + r"python -m (studies [^#|;>]+)", line)
        for command in found:
            try:
                words = shlex.split(command)
            except ValueError:
                words = command.split()
            if words[0] == "--import":
                words = words[2:]
            if words[0].startswith("-"):
                continue
            verb = " ".join(words[:2]) if " ".join(words[:2]) in verbs else words[0]
            if verb not in verbs:
                yield verb
                continue
            used = [word.split("=")[0] for word in words[1:] if re.match(r"--[a-z]", word)]
            yield from (f"{verb} {option}" for option in used if option not in verbs[verb])


def missing_targets(text):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for line in code(text):
        yield from (found for found in re.findall(r"^\s*make ([\w-]+)", line) if found not in targets)


def names(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_what_a_page_names_is_there(page, verbs):
    text = page.read_text()
    assert list(broken_links(text, page)) == []
    assert list(missing_files(text)) == []
    assert list(missing_modules(text)) == []
    assert list(wrong_commands(text, verbs)) == []
    assert list(missing_targets(text)) == []


def test_what_is_not_there_is_found_out(verbs):
    """The twin: a page with one wrong thing of each kind between right ones."""
    page = """# A page

[right](lab.md#sweeps) [wrong](nowhere.md) [wrong](lab.md#nowhere) [right](#a-page) [elsewhere](https://a.example/b)

`device/policy.py` `device/steps.py` `studies/search/` `tests/nowhere/` `runner.py` `walker.py`
`privquant.lab.sweep` `privquant.lab.nothing` `privquant.device.policy.VERSION`

    privquant plan --users 30 --high 100
    privquant plan --people 30
    privquant campaign create --epsilon 1
    privquant guess 3
    python -m studies coverage --trials 10
    python -m studies coverage --table all
    make demo    # and
    make tea
"""
    assert list(broken_links(page, ROOT / "docs" / "page.md")) == ["nowhere.md", "lab.md#nowhere"]
    assert list(missing_files(page)) == ["device/steps.py", "tests/nowhere/", "walker.py"]
    assert list(missing_modules(page)) == ["privquant.lab.nothing"]
    assert list(wrong_commands(page, verbs)) == ["plan --people", "guess", "studies coverage --table"]
    assert list(missing_targets(page)) == ["tea"]


def test_every_page_is_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        for target in re.findall(r"\]\(([^)\s#]+\.md)[^)]*\)", page.read_text()):
            if "://" not in target:
                waiting.append((page.parent / target).resolve())
    assert {names(page) for page in (ROOT / "docs").glob("*.md")} <= {names(page) for page in reached}


def test_the_first_page_shows_what_comes_out():
    """Every block of Python on docs/start.md, in turn: a comment below a line is what that line gives."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/start.md").read_text(), flags=re.M | re.S)
    known, shown = {}, []
    for block in blocks:
        body, comment = block.rstrip("\n").rsplit("\n# ", 1)
        *before, last = body.splitlines()
        exec("\n".join(before), known)
        assert repr(eval(last, known)) == comment
        shown.append(known["found"])
    assert len(shown) == 2
    text = " ".join((ROOT / "docs/start.md").read_text().split())
    said = shown[-1]
    for part in (said.typical, said.certain):
        assert f"{part.low} to {part.high}" in text
        assert f"{100 * part.within:.1f} points" in text


def test_the_first_page_has_the_planners_numbers():
    """The table of people: two digits of what a plan says of the default protocol."""
    import privquant as pq

    text = (ROOT / "docs/start.md").read_text().split("| people |")[1].split("\n\n")[0]
    rows = [
        [cell.strip().replace(",", "") for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]
    ]
    assert len(rows) == 7
    columns = [("local", 0.5), ("local", 1.0), ("local", 2.0), ("shuffle", 1.0)]
    for people, *cells in rows:
        for (trust, epsilon), cell in zip(columns, cells, strict=True):
            plan = pq.plan(users=int(people), epsilon=epsilon, confidence=0.95, domain=(0, 500_000))
            (found,) = (row for row in plan.rows if row.trust == trust and row.name.startswith("isotonic"))
            assert f"{100 * found.value:.2g}" == f"{float(cell):.2g}", (people, trust, epsilon)
