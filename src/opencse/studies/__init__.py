"""Recipes x seeds x starts: every run evaluated the same way, kept as it finishes, compared with honest statistics."""
