"""Write docs/page-hashes.txt: the SHA-256 of every file of the join page, as `sha256sum -c` reads it.

python scripts/page_hashes.py               # writes the list
python scripts/page_hashes.py --print       # to standard output
python scripts/page_hashes.py --copy DIR    # writes the files themselves, to serve them from there
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from privquant.pages.join_pages import bare_page
from privquant.pages.page_files import page_files

OUT = Path(__file__).parents[1] / "docs/page-hashes.txt"
JOIN = ("js/src/", "pages/join/", "pages/shared/")


def files() -> dict[str, bytes]:
    """Every file of the join page by its name below the server's root; c.html is served at /c/<anything>."""
    found = {f"assets/{name}": file.body for name, file in page_files().items() if name.startswith(JOIN)}
    return {"c.html": bare_page().encode()} | found


def hashes() -> str:
    return "".join(f"{hashlib.sha256(body).hexdigest()}  {name}\n" for name, body in files().items())


def copy(folder: Path) -> None:
    for name, body in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(hashes())
    elif sys.argv[1:2] == ["--copy"] and len(sys.argv) == 3:
        copy(Path(sys.argv[2]))
    else:
        OUT.write_text(hashes())
