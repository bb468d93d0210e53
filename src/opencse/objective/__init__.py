"""What is learned: views, negatives and terms composed into losses. Knows no trainer."""
