"""Reads text of any kind, tokenises it once into a memory-mapped cache, and plans the batches."""
