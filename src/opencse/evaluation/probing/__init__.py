"""Probing: what a classifier reads off a sentence vector (SentEval)."""
