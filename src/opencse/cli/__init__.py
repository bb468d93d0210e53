"""What a person types. Every command loads what it needs when it runs, so that ``--help`` is quick."""
