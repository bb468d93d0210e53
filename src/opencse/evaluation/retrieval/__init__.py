"""Retrieval in BEIR's form."""
