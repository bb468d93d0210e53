"""Evaluates sentence vectors of any model, given as a function `encode(texts) -> (n, d) array`."""

from opencse.evaluation.embedding import Embedded, EmbeddingModel, Encode, distinct, embed
from opencse.evaluation.pairs import ScoredPairs, read_scored_pairs
from opencse.evaluation.record import DataRecord, EvaluationRecord, Score
from opencse.evaluation.sts import (
    TASKS,
    Sts,
    StsData,
    StsTask,
    TaskPairs,
    load_sts,
    load_sts_hub,
    sts_table,
)
from opencse.evaluation.suite import Suite
from opencse.statistics.correlation import cosine_of_rows, pearson, spearman

__all__ = [
    "TASKS",
    "DataRecord",
    "Embedded",
    "EmbeddingModel",
    "Encode",
    "EvaluationRecord",
    "Score",
    "ScoredPairs",
    "Sts",
    "StsData",
    "StsTask",
    "Suite",
    "TaskPairs",
    "cosine_of_rows",
    "distinct",
    "embed",
    "load_sts",
    "load_sts_hub",
    "pearson",
    "read_scored_pairs",
    "spearman",
    "sts_table",
]
