"""The parts of a sentence encoder: pooling, dense layers, token weights, prompts, similarity."""
