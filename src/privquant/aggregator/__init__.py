"""The aggregator: campaigns, the store that counts every report exactly once, and the API devices talk to.

    settings, keys, logs, metrics   what a server is started with and what it shows
    tickets                         what binds a token to the threshold it was given
    store/                          the tables, and one transaction a group of requests
    groups                          the queue that makes groups
    fold, publisher                 from stored counts to estimates and to the next thresholds
    campaigns, operators            what an operator may do
    devices, api, server            HTTP

Nothing a process holds is not also in the store: any process may be killed at any moment.
"""
