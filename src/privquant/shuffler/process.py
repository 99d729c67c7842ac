"""A shuffler as a process of its own: the one that `privquant shuffler serve` is."""

from __future__ import annotations

from privquant.server.process import OwnProcess
from privquant.shuffler.settings import Settings


class ShufflerProcess(OwnProcess):
    """A shuffler."""

    settings: Settings
    module = "privquant.shuffler.server"
    role = "shuffler"
