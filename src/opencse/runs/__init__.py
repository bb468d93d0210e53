"""One training run: prepare, train, and keep the best encoder in a folder with its record, report and card."""
