"""What both servers are made of, and no campaign; the aggregator and the shuffler stand on it."""
