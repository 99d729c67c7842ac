"""The aggregator: campaigns, the store that counts every report exactly once, and the API devices talk to.

    settings, keys, logs, metrics   what a server is started with and what it shows
    tickets                         what binds a token to the threshold it was given
    store/                          the tables, and one transaction a group of requests
    group_commit                    the queue that makes groups of requests
    campaign_protocol, publisher,
    campaign_cache                  from stored counts to estimates and to the thresholds handed out next
    campaigns, operators, alarms    what an operator may do and is told
    devices, api, asgi              HTTP
    service, server, process        one process, several of them, and one driven from outside
    demo                            all of it at once

Nothing a process holds is not also in the store: any process may be killed at any moment.
"""
