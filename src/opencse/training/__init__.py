"""The training engine: steps, batches, optimizer, checkpoints and the log of a run."""
