"""What an operator can call: accounts and access, forms, the feed of the console, metrics."""
