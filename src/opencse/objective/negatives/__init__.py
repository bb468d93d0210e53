"""What an anchor is pushed from: one class, one file."""
