"""Outcomes made up for tests of reports: every cell hits in the same share of its trials."""

import numpy as np

from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.results import Results


def of_rate(cell, rate, error=0.2):
    """Answers exactly at the quantile in `rate` of the trials, `error` above it in the others; claims that cover
    but for likelihood-ratio sets, which lie beside the population's quantile."""
    n, shape = 1000, (cell.trials, len(cell.template.quantiles))
    ranks = np.rint(n * np.array(cell.template.quantiles)).astype(np.int64)
    missed = np.arange(cell.trials)[:, None] >= round(rate * cell.trials)
    at = np.broadcast_to(ranks, shape) + np.where(missed, round(error * n), 0)
    zeros = np.zeros(shape, np.int64)
    claims = zeros[:, : 1 if cell.claim else 0]
    above = 1 if cell.claim == "likelihood-ratio" else 0
    return Outcome(
        n,
        cell.template.quantiles,
        at,
        at,
        at,
        zeros,
        zeros,
        zeros,
        claims + above,
        claims + 2,
        claims + 400,
        claims + 600,
        alarms=zeros[:, : 1 if cell.claim == "alarm" else 0] + 1,
    )


def made_up(cells, rate, error=0.2):
    return Results(tuple(cells), tuple(of_rate(cell, rate, error) for cell in cells), 1)
