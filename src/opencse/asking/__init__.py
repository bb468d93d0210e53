"""Has a language model write questions about documents, and filters them; see `opencse.questions`."""
