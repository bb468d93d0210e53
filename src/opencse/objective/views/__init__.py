"""How the positive is made: one class, one file."""
