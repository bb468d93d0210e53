"""Judging sentence vectors: takes any `encode(texts) -> (n, d) array`, so any model can be judged."""

from opencse.evaluation.correlation import cosine_of_rows, pearson, spearman
from opencse.evaluation.embedding import Embedded, Encode, distinct, embed
from opencse.evaluation.pairs import ScoredPairs, read_scored_pairs
from opencse.evaluation.result import (
    Aggregates,
    DataRecord,
    Environment,
    EvaluationRecord,
    Score,
    StsResult,
    StsScores,
    TaskScore,
    write_json,
)
from opencse.evaluation.sts import evaluate_pairs, evaluate_sts
from opencse.evaluation.sts_data import TASKS, StsData, StsTask, TaskPairs, load_sts, load_sts_hub
from opencse.evaluation.table import sts_table

__all__ = [
    "TASKS",
    "Aggregates",
    "DataRecord",
    "Embedded",
    "Encode",
    "Environment",
    "EvaluationRecord",
    "Score",
    "ScoredPairs",
    "StsData",
    "StsResult",
    "StsScores",
    "StsTask",
    "TaskPairs",
    "TaskScore",
    "cosine_of_rows",
    "distinct",
    "embed",
    "evaluate_pairs",
    "evaluate_sts",
    "load_sts",
    "load_sts_hub",
    "pearson",
    "read_scored_pairs",
    "spearman",
    "sts_table",
    "write_json",
]
