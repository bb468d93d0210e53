"""Sources of negatives: one file for each family."""
