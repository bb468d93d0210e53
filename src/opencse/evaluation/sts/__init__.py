"""Semantic textual similarity: seven tasks of graded pairs."""
