"""Is one system better than another, or did it only look so? Tests over seeds, over pairs, over a family.

Two sources of chance are kept apart. *Seeds*: train again and the score moves (``paired_seeds``); *pairs*: other
sentence pairs would have given another score (``paired_bootstrap``, ``williams``, ``steiger``), for two models as they
are. A claim about a method needs the first; a claim about two models the second (Dror, Baumer, Shlomov and Reichart
2018, "The hitchhiker's guide to testing statistical significance in natural language processing"). With several
comparisons, ``after_holm`` first, then ``verdict``.
"""

from opencse.statistics.bootstrap import (
    PairedBootstrap,
    PairedBootstrapTasks,
    paired_bootstrap,
    paired_bootstrap_tasks,
)
from opencse.statistics.correlations import DependentCorrelations, steiger, williams
from opencse.statistics.difference import (
    ALPHA,
    AfterHolm,
    Difference,
    Interval,
    after_holm,
    brief,
    holm,
    verdict,
)
from opencse.statistics.seeds import PairedSeeds, Summary, paired_seeds, summary

__all__ = [
    "ALPHA",
    "AfterHolm",
    "DependentCorrelations",
    "Difference",
    "Interval",
    "PairedBootstrap",
    "PairedBootstrapTasks",
    "PairedSeeds",
    "Summary",
    "after_holm",
    "brief",
    "holm",
    "paired_bootstrap",
    "paired_bootstrap_tasks",
    "paired_seeds",
    "steiger",
    "summary",
    "verdict",
    "williams",
]
