"""Take the pictures of every page for the docs: phone and desktop, light and dark, in docs/figures/pages.

    python scripts/page_pictures.py

Starts a server and Chromium of its own; the pages are those the tests walk through (tests/pages/tour.py). Writes
docs/page-pictures.md, which shows them all, and needs Pillow, which comes with the `lab` extra.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / each) for each in ("pages", "aggregator", "js", "device")]
OUT = ROOT / "docs/figures/pages"
PAGE = ROOT / "docs/page-pictures.md"
COLOURS = 128  # plenty for flat pages, and half of the bytes


def take(folder: Path) -> dict[str, list[str]]:
    """Every picture; by the page's name, the looks it was taken in."""
    from browser import Browser
    from scene import Scene
    from tour import LOOKS, Tour

    taken: dict[str, list[str]] = {}
    profile = folder / "chromium"
    profile.mkdir()
    scene, browser = Scene(folder), Browser(profile).start()
    try:
        scene.server.start()
        tour = Tour(browser, scene, folder)
        tour.prepare()
        for look in LOOKS:
            for name, page in tour.pages(look):
                file = OUT / f"{name}-{look}.png"
                page.picture(file)
                Image.open(file).convert("RGB").quantize(COLOURS).save(file, optimize=True)
                taken.setdefault(name, []).append(look)
                print(file.name)
    finally:
        browser.kill()
        scene.server.kill()
    return taken


def write_page(taken: dict[str, list[str]]) -> None:
    lines = [
        "# Pictures of every page",
        "",
        "Taken by `python scripts/page_pictures.py`; the pages are on [pages.md](pages.md).",
    ]
    for name, looks in taken.items():
        lines += ["", f"## {name}", "", "| " + " | ".join(looks) + " |", "|" + "---|" * len(looks)]
        lines.append(
            "| " + " | ".join(f"![{name}, {look}](figures/pages/{name}-{look}.png)" for look in looks) + " |"
        )
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="privquant-pictures-") as scratch:
        write_page(take(Path(scratch)))
