"""Judging sentence vectors: takes any `encode(texts) -> (n, d) array`, so any model can be judged."""

from opencse.environment import Environment
from opencse.evaluation.correlation import cosine_of_rows, pearson, spearman
from opencse.evaluation.embedding import Embedded, Encode, distinct, embed
from opencse.evaluation.pairs import ScoredPairs, read_scored_pairs
from opencse.evaluation.record import DataRecord, EvaluationRecord
from opencse.evaluation.sts.data import TASKS, StsData, StsTask, TaskPairs, load_sts, load_sts_hub
from opencse.evaluation.sts.result import Aggregates, Score, StsResult, StsScores, TaskScore, sts_table
from opencse.evaluation.sts.score import evaluate_pairs, evaluate_sts
from opencse.records import write_json

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
