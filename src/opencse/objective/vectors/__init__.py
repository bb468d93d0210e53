"""The vectors of a step: requests say which are needed, and one forward pass makes them."""
