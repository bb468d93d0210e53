"""Analyses of a model: geometry, layers, biases, what its cosines mean, and the report with its figures."""
