"""schemathesis over the OpenAPI document: what the document promises is what a running server does.

Beside its usual answers to requests that fit the document, these are right too: 410 (the campaign is over), 422
(fits the form, cannot be run: quantiles that do not rise, a last wave after the deadline), 425 and 503 (not now: a
campaign that schemathesis itself paused); that no 503 stands for a fault is looked up in log and metrics. A batch
is answered 200 even if reports in it have not the form: each has its own status among the results.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scene import Scene

CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 410, 422, 425, 503]

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]

[[operations]]
include-path = "/v1/campaigns/{id}/reports:batch"
checks.negative_data_rejection.enabled = false
"""


def fuzz(scene: Scene, examples: int, folder: Path) -> None:
    """Both listeners, each by its own document."""
    campaign = scene.campaign()
    scene.tokens(campaign, 1)
    for listener in (scene.server.admin_url, scene.server.url):
        fuzz_one(scene, listener, examples, folder)
    assert '"level": "error"' not in scene.log.read_text()
    assert 'reason="unavailable"' not in scene.call("GET", "/metrics")


def fuzz_one(scene: Scene, listener: str, examples: int, folder: Path) -> None:
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{listener}/openapi.json"),
        *("--header", f"Authorization: Bearer {scene.token}"),
        *("--max-examples", str(examples), "--seed", "1", "--phases", "examples,coverage,fuzzing"),
        *(
            "--suppress-health-check",
            "all",
            "--request-timeout",
            "60",
            "--no-color",
            "--generation-database",
            "none",
        ),
    ]
    (folder / "schemathesis.toml").write_text(CONFIG)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_the_document_holds(scene: Scene, tmp_path: Path) -> None:
    fuzz(scene, 4, tmp_path)


@pytest.mark.full
def test_the_document_holds_at_length(scene: Scene, tmp_path: Path) -> None:
    fuzz(scene, 300, tmp_path)
