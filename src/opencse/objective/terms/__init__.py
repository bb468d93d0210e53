"""Extra losses of an objective: one file for each family of methods."""
