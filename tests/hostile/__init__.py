"""A table of hostile inputs over all commands: each is refused in one line, and every file stays as it was."""
