"""A shuffler as a process of its own: the one that `privquant shuffler serve` is."""

from __future__ import annotations

from privquant.aggregator.peer import PeerRefused, PeerSilent, get
from privquant.aggregator.process import OwnProcess
from privquant.aggregator.settings import address
from privquant.shuffler.settings import Settings


class ShufflerProcess(OwnProcess):
    """A shuffler."""

    settings: Settings
    module = "privquant.shuffler.server"
    role = "shuffler"

    def is_ready(self) -> bool:
        try:
            get(f"{address(self.settings.host, self.settings.port)}/readyz")
        except (PeerSilent, PeerRefused):
            return False
        return True
