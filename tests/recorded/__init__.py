"""What the package computes on small data, recorded: every recipe's first steps and every suite's scores.

``recorded.json`` was written by ``python -m recorded --write``; `recorded.test_recorded` compares with it within what
another processor's rounding makes of it. A change that should move no number is compared on one machine, bit for bit:
see ``python -m recorded --help``.
"""
