"""Evidence beside the product, in no wheel: the paper's figures, the recorded runs, the search's tables, coverage
of intervals, liars, and the planner's calibration.

`python -m studies --help`, run in the root of the repository, lists them.
"""
