"""The shuffler: takes sealed bits against one-time tokens, mixes whole rounds and forwards them, and reads nothing.

    settings                what a shuffler is started with
    database                the tables, one SQLite file
    store                   one transaction a group of device requests
    round_states            the states of a round and its transitions, in one table
    rounds                  what is done to a round, and when
    forwarding              batches and notices to the aggregator, until they are acknowledged
    joining                 what an operator agrees to before a campaign is shuffled here
    campaigns               what an operator does afterwards: look, invite, close, delete
    metrics                 what the process counts about itself
    routes, service, server HTTP, the process, and what starts it

It has its own key, configuration and database and shares nothing with an aggregator but the wire format. It never
holds the key that opens a report, and nothing in here could use one: an import contract sees to it.
"""
