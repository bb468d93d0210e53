"""The life of a run: what its folder may be, who works in it, and what it says of itself."""
