"""The paper's Bayesian search: BayesLearn, and DpBayeSS which ends it with a last stage."""
