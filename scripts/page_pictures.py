"""Take the pictures of every page for the docs: phone and desktop, light and dark, in docs/figures/pages.

    python scripts/page_pictures.py

Starts a server and Chromium of its own; the pages are those the tests walk through (tests/pages/tour.py).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / each) for each in ("pages", "aggregator", "js", "device")]
OUT = ROOT / "docs/figures/pages"


def main() -> None:
    from browser import Browser
    from scene import Scene
    from tour import LOOKS, Tour

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="privquant-pictures-") as folder:
        profile = Path(folder) / "chromium"
        profile.mkdir()
        scene, browser = Scene(Path(folder)), Browser(profile).start()
        try:
            scene.server.start()
            tour = Tour(browser, scene, Path(folder))
            tour.prepare()
            for look in LOOKS:
                for name, page in tour.pages(look):
                    page.picture(OUT / f"{name}-{look}.png")
                    print(f"{name}-{look}")
        finally:
            browser.kill()
            scene.server.kill()


if __name__ == "__main__":
    main()
