"""Two aggregators with one manifest, invites and stores of their own: their counts add to one campaign's."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scene import Scene
from test_service_commands import out, privquant

import privquant as pq
from privquant.aggregator.backup import backup, restore
from privquant.aggregator.campaign.campaigns import new_manifest
from privquant.aggregator.campaign.merging import differ, merged_counts, merged_estimates
from privquant.aggregator.campaign.mode import Draft, ShuffleDraft
from privquant.aggregator.campaign.protocol import CampaignProtocol
from privquant.aggregator.settings import Settings
from privquant.device import Device, Patience, Policy, Rule
from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.messages import Query
from privquant.server.keys import KeyFolder
from privquant.server.process import ServerProcess, free_port
from privquant.wire import Manifest, sign_manifest

EACH = 150
POLICY = {"pay": Rule(Integers(0, 999), 1)}
STUBBORN = Patience(total=60, request=10, first_pause=0.02, longest_pause=0.2)


def answer_all(folder: Path, invites: list[str], first: int) -> None:
    """Real devices; the k-th of an aggregator has the value `first + 6 * k`, so that both have like people."""

    def one(k: int) -> None:
        ledger = folder / f"ledger-{first}-{k}"
        Device(Policy(POLICY, ledger), patience=STUBBORN).answer(invites[k], first + 6 * k)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(len(invites))))


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("two")
    one = Scene(folder / "one")
    one.server.start()
    campaign = one.campaign(measurement="pay", planned_users=2 * EACH, epsilon=1.0, pace=0)
    other = Scene.__new__(Scene)  # whose operator comes with the copy
    backup(one.settings, folder / "copy")
    other.settings = Settings(data=folder / "two" / "data", port=free_port(), admin_port=free_port())
    restore(other.settings, folder / "copy")
    other.token = one.token
    other.server = ServerProcess(other.settings, log=folder / "two.log")
    other.server.start()
    written = []
    try:
        for k, scene in enumerate((one, other)):
            text = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": EACH})
            answer_all(folder, text.splitlines()[1:], 3 * k)
            scene.call("POST", f"/v1/campaigns/{campaign}/close")
            written.append(folder / f"export-{k}.json")
            written[-1].write_text(json.dumps(scene.call("GET", f"/v1/campaigns/{campaign}/export")))
    finally:
        one.server.stop()
        other.server.stop()
    return written


def read(exports: list[Path]) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in exports]


def test_the_merged_answer_is_that_of_one_aggregator_that_heard_all(exports) -> None:
    forms = read(exports)
    whole = CampaignProtocol(Manifest.from_dict(forms[0]["envelope"]["manifest"]))
    for form in forms:
        for row in form["counts"]:
            query = Query(int(row["threshold"]), int(row["coin"]), int(row["phase"]), int(row["arm"]))
            for bit in (0, 1):
                for _ in range(row["ones"] if bit else row["answered"] - row["ones"]):
                    whole.protocol.tell_counts(query, 1, bit)
    [found] = merged_estimates(forms)
    [expected] = whole.estimates()
    assert (found.value, found.users, found.certain) == (expected.value, 2 * EACH, expected.certain)
    assert merged_counts(forms)[1] != merged_counts(forms[:1])[1]


def test_aggregators_with_unlike_people_are_told_apart() -> None:
    # Alike pairs of 1,000 are told apart in none of 400 (docs/scale.md); these seeds are fixed.
    rng = np.random.default_rng(8)
    here, alike, shifted = (
        [
            pq.median(
                np.clip(rng.normal(centre, 1000, 1000), 0, 9999).astype(int), domain=(0, 9999), epsilon=1.0, rng=rng
            )
        ]
        for centre in (5000, 5000, 7000)
    )
    assert not differ([here, alike])
    assert differ([here, alike, shifted])


def test_the_command_adds_them_up(exports) -> None:
    said = out(privquant("campaign", "merge", *exports))
    assert said.startswith(f"{2 * EACH} answers of 2 aggregators")
    assert "export-0.json alone: " in said
    form = json.loads(out(privquant("campaign", "merge", *exports, "--json")))
    assert form["differ"] is False
    assert form["estimates"][0]["value"] == merged_estimates(read(exports))[0].value


def test_a_shuffled_campaign_has_one_aggregator_and_nothing_to_add(tmp_path: Path) -> None:
    keys = KeyFolder(tmp_path / "keys")
    shuffle = ShuffleDraft(1e-4, "https://shuffle.example.org", "ab" * 32)
    manifest = new_manifest(Draft("pay", "How much?", Integers(0, 999), 1.0, 1_400, shuffle=shuffle), keys)
    envelope = json.loads(sign_manifest(manifest, keys.current))
    export = {"campaign": manifest.id, "state": "closed", "envelope": envelope, "counts": [], "estimates": []}
    for exports in ([export], [export, export]):
        with pytest.raises(InvalidInput, match="is shuffled, and such a campaign has one aggregator"):
            merged_estimates(exports)


def test_what_cannot_be_added_is_refused(exports, tmp_path) -> None:
    one, two = read(exports)
    with pytest.raises(InvalidInput, match="nothing to merge"):
        merged_counts([])
    with pytest.raises(InvalidInput, match="close it first"):
        merged_counts([one, two | {"state": "open"}])
    changed = json.loads(json.dumps(two))
    changed["envelope"]["manifest"]["planned_users"] = "77"
    with pytest.raises(InvalidInput, match="export 2 is not what"):
        merged_counts([one, changed])
    (tmp_path / "x.json").write_text("{}")
    done = privquant("campaign", "merge", tmp_path / "x.json")
    assert (done.returncode, "is not what" in done.stderr) == (2, True)
