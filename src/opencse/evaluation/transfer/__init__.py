"""Transfer: classifiers over frozen sentence vectors (SentEval)."""
