"""The aggregator: campaigns, the store that counts every report exactly once, and the API devices talk to.

    campaign/    a campaign's life, its two modes, and what is shown of it
    devices/     what a device can call, and who is let in when
    operators/   what an operator can call and is shown
    store/       the tables, and one transaction a group of requests

The modules beside them are one server process: what it is started with, its listeners, its tasks and its metrics.
Nothing a process holds is not also in the store: any process may be killed at any moment.
"""
