"""Isotonic search measured: one module a table, each with `cells(runs)` and `report(results)`."""
