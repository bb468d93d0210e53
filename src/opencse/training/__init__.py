"""The engine: trainer, precision, selection, checkpoints."""
