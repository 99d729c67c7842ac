"""The server: asks in few growing rounds, since each costs a trip to every node and back."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid, ServerApp

import privquant as pq
from privquant.engines.partitions import Asked, PartitionedPopulation, Reply
from privquant.errors import PrivquantError
from privquant.lab.schedule import Schedule
from privquant_flower.messages import packed, question_form, replies, unpacked

log = logging.getLogger("flwr")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    wait_for(grid, int(config["nodes"]), 60.0)
    population = GridPopulation(
        grid, str(config["campaign"]), str(config["measurement"]), float(config["patience"])
    )
    protocol = pq.protocol(
        "isotonic",
        (int(config["low"]), int(config["high"])),
        users=int(config["users"]) or population.users,
        epsilon=float(config["epsilon"]),
        quantile=float(config["quantile"]),
        spread=0.25,
    )
    found = pq.run(protocol, population, schedule=Schedule.growing(float(config["growth"])))
    log.info("%s", found)
    for line in population.refused:
        log.info("%s", line)
    if config["out"]:
        form = {"value": found.value, "users": found.users, "given_up": protocol.given_up, "said": repr(found)}
        Path(str(config["out"])).write_text(json.dumps({**form, "refused": population.refused}))


def wait_for(grid: Grid, nodes: int, patience: float) -> None:
    end = time.monotonic() + patience
    while len(list(grid.get_node_ids())) < nodes:
        if time.monotonic() > end:
            raise PrivquantError(f"{nodes} nodes are needed, after {patience:g} s there are fewer")
        time.sleep(0.5)


class GridPopulation(PartitionedPopulation):
    """Flower's nodes as partitions."""

    def __init__(self, grid: Grid, campaign: str, measurement: str, patience: float) -> None:
        self._grid = grid
        self._nodes = sorted(grid.get_node_ids())
        self._measurement = measurement
        self._patience = patience
        self.refused: list[str] = []
        super().__init__((), campaign=campaign)

    def _open_all(self) -> list[int]:
        asked = {"kind": "open", "campaign": self.campaign, "measurement": self._measurement}
        found = self._called(dict.fromkeys(range(len(self._nodes)), asked), 0)
        return [int(str(found.get(k, {}).get("users", 0))) for k in range(len(self._nodes))]

    def _answer_all(self, number: int, asked: Mapping[int, Asked]) -> dict[int, list[Reply] | None]:
        forms = {
            k: {
                "kind": "answer",
                "campaign": self.campaign,
                "measurement": self._measurement,
                "round": number,
                "asked": question_form(questions),  # type: ignore[arg-type]
            }
            for k, questions in asked.items()
        }
        found = self._called(forms, number)
        made: dict[int, list[Reply] | None] = dict.fromkeys(asked)
        for k, form in found.items():
            if "answered" in form:
                made[k] = list(replies(form["answered"], asked[k]))  # type: ignore[arg-type]
        return made

    def _called(self, forms: Mapping[int, Mapping[str, object]], number: int) -> dict[int, dict[str, object]]:
        """What each node said; a node that refused, failed or was late is not in it, and the reason is kept."""
        messages = [
            Message(packed(dict(form)), self._nodes[k], MessageType.QUERY, group_id=str(number))
            for k, form in forms.items()
        ]
        place = {node: k for k, node in enumerate(self._nodes)}
        found = {}
        for reply in self._grid.send_and_receive(messages, timeout=self._patience):
            k = place[reply.metadata.src_node_id]
            form = {"refused": str(reply.error.reason)} if reply.has_error() else unpacked(reply.content)
            if "refused" in form:
                self.refused.append(f"node {k}, round {number}: {form['refused']}")
            else:
                found[k] = form
        return found
