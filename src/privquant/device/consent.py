"""What a campaign asks, in words for who is asked, and the policy that allows this campaign and no more.

The page of an invite and `privquant policy` say and write the same.
"""

import json
from decimal import ROUND_CEILING, Decimal
from typing import Any

from privquant.device.policy import VERSION, covers
from privquant.device.trust_models import model_of
from privquant.domain import Domain, Grid, LogGrid
from privquant.errors import InvalidInput
from privquant.wire import Manifest, fingerprint

_FEW_EDGES = 3  # so few are as readable as the ends and the number of bins


def policy_of(manifest: Manifest) -> str:
    """A device's policy, in TOML, that allows one answer to this campaign's question, to its issuer alone."""
    form = ", ".join(f"{name} = {json.dumps(value)}" for name, value in policy_form(manifest.domain).items())
    # A policy counts in units of 10^-12 and rounds down.
    most = Decimal(repr(manifest.epsilon)).quantize(Decimal("1e-12"), ROUND_CEILING).normalize()
    return (
        f'version = {VERSION}\n\n[measurements."{manifest.measurement}"]\n'
        f"domain = {{{form}}}\n"
        f"max_epsilon = {most:f}\n"
        f'issuer_key = "{fingerprint(manifest.issuer)}"\n' + model_of(manifest).policy_table()
    )


def policy_form(domain: Domain) -> dict[str, Any]:
    """The shortest form a policy may have for a domain: a grid of equal ratios by its ends."""
    if isinstance(domain, Grid) and len(domain.edges) > _FEW_EDGES and domain.edges[0] > 0:
        low, high, bins = domain.edges[0], domain.edges[-1], len(domain.edges) - 1
        try:
            found = covers(LogGrid(low, high, bins), domain)
        except InvalidInput:  # ends too far apart for a ratio
            found = False
        if found:
            return {"kind": "log", "low": low, "high": high, "bins": bins}
    return domain.to_dict()


def values_asked(domain: Domain) -> str:
    """Which values the question is about."""
    if isinstance(domain, Grid):
        return (
            f"a number, taken as one of {domain.size:,} ranges split at {domain.edges[0]:g} to {domain.edges[-1]:g}"
        )
    form = domain.to_dict()
    return f"a whole number from {form['low']:,} to {form['high']:,}"


def quantiles_wanted(manifest: Manifest) -> str:
    """What the issuer estimates out of all answers."""
    names = ["the median" if q == 0.5 else f"the {q:g} quantile" for q in manifest.quantiles]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
