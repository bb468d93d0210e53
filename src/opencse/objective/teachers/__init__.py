"""Frozen encoders that read the texts of a step, for the parts that learn from their vectors."""
