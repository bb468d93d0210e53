"""The vectors that a step works on: each kind is a request, made once by the one file that knows how."""
