"""The aggregator: campaigns, the store that counts every report exactly once, and the API devices talk to.

    settings, keys, logs, metrics   what a server is started with and what it shows
    token_ids, tickets              how a token is named at rest; what binds it to the threshold it was given
    store/                          the tables, and one transaction a group of requests
    group_commit                    the queue that makes groups of requests
    campaign_protocol, publisher,
    campaign_cache                  from stored counts to estimates and to the thresholds handed out next
    campaigns, operators, alarms    what an operator may do and is told
    snapshots, retention            what is shown of a campaign that runs; how long a closed one is kept
    devices, batches, api, replies,
    asgi, bodies, connections       HTTP; the routes of devices are a table of privquant.wire
    campaign_metrics                what Prometheus is told of campaigns
    health, causes                  whether reports can be counted, and if not, why, in words
    service, server, workers        one process, what starts it, and several on one port
    process, operator_client        a server driven from outside
    demo                            all of it at once

Nothing a process holds is not also in the store: any process may be killed at any moment.
"""
