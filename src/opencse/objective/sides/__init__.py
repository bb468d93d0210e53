"""The vectors that a similarity is taken between: the two views, or versions of them with more or less noise."""
