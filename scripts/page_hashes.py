"""Write docs/page-hashes.txt: the SHA-256 of every file the join pages load, as `sha256sum -c` reads it.

    python scripts/page_hashes.py            # writes the file
    python scripts/page_hashes.py --print    # to standard output

To serve the files from elsewhere, put them under the same names and check them: `sha256sum -c page-hashes.txt`.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from privquant.aggregator.page_files import page_files

OUT = Path(__file__).parents[1] / "docs/page-hashes.txt"
JOIN = ("js/src/", "pages/join/", "pages/shared/")


def hashes() -> str:
    files = {name: file for name, file in page_files().items() if name.startswith(JOIN)}
    return "".join(f"{hashlib.sha256(file.body).hexdigest()}  assets/{name}\n" for name, file in files.items())


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(hashes())
    else:
        OUT.write_text(hashes())
