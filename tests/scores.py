"""Scores of a plain function of texts."""

from opencse.evaluation import Encode, ScoredPairs, distinct, embed, spearman


def spearman_of(encode: Encode, pairs: ScoredPairs) -> float:
    """Spearman x 100 of the cosines of graded pairs."""
    embedded = embed(encode, distinct([pairs.first, pairs.second]))
    return 100 * spearman(embedded.cosines(pairs.first, pairs.second), pairs.scores)
