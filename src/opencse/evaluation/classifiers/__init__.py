"""Classifiers and regressors over frozen vectors, and how they are chosen."""
