"""Cross-encoders: score pairs of texts, re-rank the hits of a search, and give margins for distillation."""
