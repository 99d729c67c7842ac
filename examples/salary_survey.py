"""The median salary in a room: plan it, run it with simulated people, read what may be said.

python examples/salary_survey.py
"""

import numpy as np

import privquant as pq

DOMAIN = pq.Integers(0, 500_000)
PEOPLE, EPSILON = 400, 1.5

# Before anyone is asked: can this work at all?
plan = pq.plan(users=PEOPLE, epsilon=EPSILON, confidence=0.9, domain=DOMAIN)
print(plan.verdict)
for warning in plan.warnings:
    print(warning)

# Nobody but their owners ever sees these; here they are simulated.
salaries = np.random.default_rng(7).lognormal(10.8, 0.45, PEOPLE).round()

found = pq.median(salaries, epsilon=EPSILON, domain=DOMAIN, rng=7)
print(f"\nmedian salary: {found.value:,} ({found.rank})")
print(f"true median:   {int(np.median(salaries)):,}")
print(found.guarantee)
