"""Our encoders inside other libraries."""
