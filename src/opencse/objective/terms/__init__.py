"""Extra losses of an objective: one class in one file each."""
