"""Encoders in other forms: one ONNX graph, or a table of word vectors."""
