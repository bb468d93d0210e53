"""Finding the texts nearest to a query."""
