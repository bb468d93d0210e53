"""Encoders made from raw text: counted word vectors, a new backbone, its vocabulary."""
