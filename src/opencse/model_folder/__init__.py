"""Reads and writes model folders of every layout: sentence-transformers, transformers, model2vec, adapters."""
