"""The learning objective: views, negatives and terms, composed into losses. It knows no trainer."""
