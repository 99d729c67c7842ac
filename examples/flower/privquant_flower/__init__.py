"""A quantile as a Flower app: the protocol at the server, coins, policy and ledger at the nodes."""
