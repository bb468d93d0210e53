"""Recipes x seeds x starts: every run judged alike, kept as it finishes, compared with honest statistics."""
