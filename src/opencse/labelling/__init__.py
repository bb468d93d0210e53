"""Collects queries with the texts of an index that answer them, as a data set. Start with session."""
