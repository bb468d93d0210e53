"""The sentence encoder: backbone, pooling and head; loading, saving and fast encoding."""
