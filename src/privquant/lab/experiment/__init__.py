"""The experiment core: what to run (cell), what came out (outcome), and how it is run (runner)."""
