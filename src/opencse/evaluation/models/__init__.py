"""What a trained encoder is measured against: word vectors, bags of words, whitening and flows, and any other model."""
