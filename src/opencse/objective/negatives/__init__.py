"""Sources of negatives: one class in one file each."""
