"""Evaluates sentence vectors of any model, given as a function `encode(texts) -> (n, d) array`."""

from opencse.evaluation.embedding import Embedded, EmbeddingModel, Encode, distinct, embed
from opencse.evaluation.pairs import ScoredPairs, read_scored_pairs
from opencse.evaluation.record import DataRecord, EvaluationRecord
from opencse.evaluation.sts import (
    TASKS,
    Aggregates,
    Score,
    Sts,
    StsData,
    StsResult,
    StsScores,
    StsTask,
    TaskPairs,
    TaskScore,
    load_sts,
    load_sts_hub,
    sts_table,
)
from opencse.evaluation.suite import Evaluation, Suite
from opencse.statistics.correlation import cosine_of_rows, pearson, spearman

__all__ = [
    "TASKS",
    "Aggregates",
    "DataRecord",
    "Embedded",
    "EmbeddingModel",
    "Encode",
    "Evaluation",
    "EvaluationRecord",
    "Score",
    "ScoredPairs",
    "Sts",
    "StsData",
    "StsResult",
    "StsScores",
    "StsTask",
    "Suite",
    "TaskPairs",
    "TaskScore",
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
