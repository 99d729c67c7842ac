"""The shuffler: takes sealed bits against one-time tokens, mixes whole rounds and forwards them, and reads nothing.

    settings        what a shuffler is started with
    rounds          the states of a round and its transitions, in one table; what is done to a round, and when
    store           the tables, one SQLite file; one transaction a group of device requests
    campaigns       what an operator does: agree to a campaign, look, invite, close, delete, back up
    routes          what devices and the aggregator say to it
    server          the process: its listeners, its loops, and what it sends to the aggregator

It has its own key, configuration and database and shares nothing with an aggregator but the wire format. It never
holds the key that opens a report, and nothing in here could use one: an import contract sees to it.
"""
