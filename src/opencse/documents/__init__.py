"""Adapts a model to one's own documents: training pairs, held-out questions, guards, and the checkpoint to keep."""
