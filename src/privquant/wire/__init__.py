"""What goes over the wire between device, shuffler and aggregator: one form, read strictly on all sides.

    form      canonical JSON, numbers, tokens, keys
    signing   signatures over labelled bytes
    manifest  what a campaign asks; immutable, id = hash; served signed, and accepted by its shuffler
    routes    the addresses of a campaign, and the invite: the URL a person gets
    exchange  query, claim, report and their answers; refusals

and for campaigns in shuffle mode

    shuffle_terms  what their manifests add: rounds, shuffler, seal key
    sealing        the sealed bit
    rounds         the signed question of a round, the chain of them, and its batch

All their names are here too, but those of `signing`, which only these modules need.
Standard library and `cryptography` only: this runs on the device. The text form of all this is docs/wire.md.
"""

# ruff: noqa: F403  # each module says itself what it offers

from privquant.wire.exchange import *
from privquant.wire.form import *
from privquant.wire.manifest import *
from privquant.wire.rounds import *
from privquant.wire.routes import *
from privquant.wire.sealing import *
from privquant.wire.shuffle_terms import *
