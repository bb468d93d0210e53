"""Models to compare an encoder with: word vectors, bags of words, whitening, flows, MTEB, and any other model."""
