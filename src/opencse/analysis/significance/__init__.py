"""Is one system better than another, or did it only look so? Tests over seeds, over pairs, over a family.

Two sources of chance are kept apart. *Seeds*: train again and the score moves (``paired_seeds``, ``welch``);
*pairs*: other sentence pairs would have given another score (``paired_bootstrap``, ``williams``,
``steiger``), for two models as they are. A claim about a method needs the first; a claim about two models the
second (Dror, Baumer, Shlomov and Reichart 2018, "The hitchhiker's guide to testing statistical significance
in natural language processing"). With several comparisons, ``after_holm`` first, then ``verdict``.
"""

from opencse.analysis.significance.bootstrap import (
    PairedBootstrap,
    PairedBootstrapTasks,
    paired_bootstrap,
    paired_bootstrap_tasks,
)
from opencse.analysis.significance.comparison import ALPHA, AfterHolm, Comparison, Interval
from opencse.analysis.significance.correlations import DependentCorrelations, steiger, williams
from opencse.analysis.significance.family import after_holm, holm
from opencse.analysis.significance.seeds import PairedSeeds, Summary, UnpairedSeeds, paired_seeds, summary, welch
from opencse.analysis.significance.verdict import brief, verdict

__all__ = [
    "ALPHA",
    "AfterHolm",
    "Comparison",
    "DependentCorrelations",
    "Interval",
    "PairedBootstrap",
    "PairedBootstrapTasks",
    "PairedSeeds",
    "Summary",
    "UnpairedSeeds",
    "after_holm",
    "brief",
    "holm",
    "paired_bootstrap",
    "paired_bootstrap_tasks",
    "paired_seeds",
    "steiger",
    "summary",
    "verdict",
    "welch",
    "williams",
]
