"""Extra losses: one class, one file."""
