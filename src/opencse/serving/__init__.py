"""Models over HTTP: OpenAI-style embeddings, search, similarity, and a page."""
