"""The hierarchical mechanism: every user reports one level of a tree over the domain."""
