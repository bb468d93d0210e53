"""Fast forward passes on a CPU, for training and for inference."""
