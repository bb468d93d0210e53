"""Looking into models and runs: figures and the report."""
