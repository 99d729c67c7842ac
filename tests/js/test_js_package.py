"""What is published: a package without dependencies and without a build step, the same files in the wheel."""

import gzip
import json
import re
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from nodejs import JS, evaluate, run_node

import privquant
import privquant.device

PACKAGE = json.loads((JS / "package.json").read_text())
IMPORTED = re.compile(r'^(?:import|export)\b(?:[^;"]*\bfrom)?\s*"([^"]+)";', re.MULTILINE)


ON_DEMAND = re.compile(r'\bimport\("([^"]+)"\)')


def graph(start: Path, on_demand: bool = False) -> dict[Path, list[str]]:
    """Every module that `start` comes to load, at once or on demand too, and what each imports."""
    found: dict[Path, list[str]] = {}
    todo = [start.resolve()]
    while todo:
        module = todo.pop()
        if module not in found:
            found[module] = IMPORTED.findall(module.read_text())
            found[module] += ON_DEMAND.findall(module.read_text()) if on_demand else []
            todo += [(module.parent / name).resolve() for name in found[module] if name.startswith(".")]
    return found


@pytest.mark.parametrize(("entry", "allowed"), [("browser.js", ()), ("hpke.js", ()), ("node.js", ("node:",))])
def test_nothing_is_imported_but_its_own_files_and_for_node_what_node_has(entry, allowed):
    modules = graph(JS / "src" / entry, on_demand=True)
    outside = {name for names in modules.values() for name in names if not name.startswith(".")}
    assert all(name.startswith(allowed) for name in outside), outside
    assert bool(outside) == bool(allowed)
    assert all(module.is_relative_to(JS / "src") for module in modules)


def test_every_source_file_is_reached_from_an_entry():
    reached = set().union(
        *(graph(JS / "src" / entry, on_demand=True) for entry in ("browser.js", "hpke.js", "node.js"))
    )
    assert reached == {path.resolve() for path in (JS / "src").glob("*.js")}


def test_a_page_loads_little():
    files = [module.read_bytes() for module in graph(JS / "src/browser.js")]
    size = sum(len(gzip.compress(file)) for file in files)
    whole = graph(JS / "src/browser.js", on_demand=True)
    more = sum(len(gzip.compress(module.read_bytes())) for module in whole) - size
    print(f"{len(files)} files, {size} bytes compressed one by one")
    print(f"and for a shuffled campaign {len(whole) - len(files)} files, {more} bytes")
    assert size < 42_000
    assert 0 < more < 12_000


def test_the_package_says_what_it_is():
    assert PACKAGE["version"] == privquant.__version__
    assert not {"dependencies", "devDependencies", "peerDependencies", "scripts"} & set(PACKAGE)
    named = [PACKAGE["bin"]["privquant-device"], *re.findall(r': "(\./[^"]+)"', json.dumps(PACKAGE["exports"]))]
    assert len(named) == 6
    assert all((JS / name).is_file() for name in named)


def test_node_finds_the_package_by_its_name(tmp_path):
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/privquant-device").symlink_to(JS)
    code = """
    import { Device, FileLedger } from "privquant-device";
    import { Device as InBrowser, IndexedDbLedger } from "privquant-device/browser";
    import { seal } from "privquant-device/hpke";
    console.log([Device, FileLedger, InBrowser, IndexedDbLedger, seal].every((each) => typeof each === "function"));
    """
    done = run_node("--input-type=module", "-", input=code, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("true\n", "")


def test_a_device_has_the_refusals_of_python():
    """Class by class and code by code, but for the one that only a browser needs."""
    ours = evaluate(
        """
        const refusals = await import(`${js}/refusals.js`);
        const form = Object.entries(refusals).map(([name, kind]) => [name, [...kind.reasons].sort()]);
        console.log(JSON.stringify(Object.fromEntries(form)));
        """
    )
    assert ours.pop("PlatformRefused") == ["platform"]
    for name, reasons in ours.items():
        assert reasons == sorted(getattr(privquant.device, name).reasons), name
    theirs = {name for name in dir(privquant.device) if name.endswith("Refused") or name == "TryLater"}
    assert theirs <= set(ours)


def test_the_wheel_has_the_device_in_it(tmp_path):
    (wheel,) = WheelBuilder(str(JS.parent)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as opened:
        inside = {name: opened.read(name) for name in opened.namelist() if name.startswith("privquant/js/")}
    published = [JS / "package.json", *(JS / "bin").iterdir(), *(JS / "src").iterdir()]
    assert inside == {f"privquant/js/{path.relative_to(JS)}": path.read_bytes() for path in published}
