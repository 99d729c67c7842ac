"""Every page, on a phone of 320 pixels and on a desktop, in the light and in the dark: axe finds no serious fault,
the browser notes no error and no violation of the content policy, and nothing has to be scrolled sideways.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from browser import Browser, Page
from scene import Scene
from tour import LOOKS, Tour

AXE = resources.files("axe_core_python").joinpath("axe.min.js").read_text()
LONG = [name for name in LOOKS if name in ("phone-light", "desktop-dark")]


@pytest.fixture(scope="module")
def tour(browser: Browser, scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Tour:
    made = Tour(browser, scene, Path(tmp_path_factory.mktemp("tour")), people=300)
    made.prepare()
    return made


def faults(page: Page) -> list[str]:
    """What axe calls serious or critical."""
    page.browser.call("Runtime.evaluate", page.session, expression=AXE)
    found = page.run("return (await axe.run(document, { resultTypes: ['violations'] })).violations;")
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]} ({each['nodes'][0]['failureSummary']})"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize(
    "look", [pytest.param(look, marks=[pytest.mark.full] if look in LONG else []) for look in LOOKS]
)
def test_every_page_can_be_used_by_everybody(tour: Tour, look: str):
    names = []
    for name, page in tour.pages(look):
        assert faults(page) == [], name
        assert page.complaints() == [], name
        assert page.fits(), name
        assert page.value("document.querySelectorAll('h1').length") == 1, name
        names.append(name)
    assert len(names) == 13


def test_a_page_with_faults_is_found_out(tour: Tour, browser: Browser):
    """The twin: a field without a label, pale text, a script and a style in the page."""
    page = tour._join(LOOKS["phone-dark"])
    page.run(
        """
        document.querySelector("label[for=value]").remove();
        document.querySelector("p").style.color = "#333";
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.body.append(script);
        const wide = document.createElement("div");
        wide.style.width = "500px"; wide.style.height = "1px";
        document.body.append(wide);
        """
    )
    found = " ".join(faults(page))
    assert "label" in found
    assert "color-contrast" in found
    assert any("Content Security Policy" in text for text in page.complaints())
    assert page.value("window.ran") is None
    assert not page.fits()
