"""Which vectors a similarity is taken between: the two views, or what is made of them with more or less noise."""
