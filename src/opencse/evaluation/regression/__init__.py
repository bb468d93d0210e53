"""STS by a regressor fitted on the training sets (SentEval)."""
