"""Protocols of other packages: found by entry point, loaded when asked for."""

import sys
from importlib.metadata import EntryPoint

import pytest

import privquant as pq
from privquant.protocols import registry

MODULE = """
from privquant.protocols.naive.search import NaiveSearch

class Theirs(NaiveSearch):
    name = "theirs"

class Clash(NaiveSearch):
    name = "isotonic"
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A real distribution on the path: a module beside the metadata that an installer writes."""
    (tmp_path / "their_package.py").write_text(MODULE)
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[privquant.protocols]\n"
        "theirs = their_package:Theirs\n"
        "isotonic = their_package:Clash\n"
        "misnamed = their_package:Theirs\n"
        "gone = their_package:Nothing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_OWN", {})
    registry._installed.cache_clear()
    yield
    registry._installed.cache_clear()
    sys.modules.pop("their_package", None)


def test_an_installed_package_brings_a_protocol(installed):
    assert "theirs" in pq.protocol_names()
    assert "their_package" not in sys.modules  # naming it loads nothing
    found = pq.median([1, 2, 3] * 50, epsilon=1.0, domain=(0, 7), protocol="theirs", rng=1)
    assert found.protocol == "theirs"
    protocol = pq.protocol("theirs", (0, 7), users=3, epsilon=1.0)
    assert type(pq.from_state(protocol.state())) is type(protocol)
    assert pq.protocol_names().count("theirs") == 1


def test_a_name_that_is_ours_stays_ours(installed):
    assert registry.protocol_class("isotonic").__module__.startswith("privquant.")
    assert pq.protocol_names().count("isotonic") == 1


@pytest.mark.parametrize(
    ("name", "said"), [("misnamed", "must be a protocol of that name"), ("gone", "cannot be loaded")]
)
def test_an_entry_point_that_does_not_fit_is_told(installed, name, said):
    with pytest.raises(pq.InvalidInput, match=said):
        registry.protocol_class(name)


def test_without_packages_the_names_are_ours():
    registry._installed.cache_clear()
    assert not any(
        isinstance(point, EntryPoint) and point.name == "theirs" for point in registry._installed().values()
    )
    with pytest.raises(pq.InvalidInput, match="unknown protocol 'theirs'"):
        registry.protocol_class("theirs")
