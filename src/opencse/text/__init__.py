"""Text in: readers, tokens made once and memory-mapped, batches, and the built-in sample."""
