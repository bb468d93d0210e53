"""Tests and intervals for the difference of two systems, over seeds, over pairs, and over a family of comparisons.

A difference has two sources of chance. *Seeds*: train again and the score moves (``paired_seeds``). *Pairs*: other
sentence pairs would have given another score to the same two models (``paired_bootstrap``; for queries
``paired_queries``). A claim about a method needs the first, a claim about two models the second (Dror, Baumer, Shlomov
and Reichart 2018, "The hitchhiker's guide to testing statistical significance in natural language processing"). With
several comparisons, call ``after_holm`` first, then ``verdict``.
"""

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
from opencse.statistics.pairs import (
    PairedBootstrap,
    PairedBootstrapTasks,
    paired_bootstrap,
    paired_bootstrap_tasks,
)
from opencse.statistics.queries import PairedQueries, intervals_of_means, paired_queries
from opencse.statistics.seeds import PairedSeeds, Summary, TwoWay, paired_seeds, summary, two_way

__all__ = [
    "ALPHA",
    "AfterHolm",
    "Difference",
    "Interval",
    "PairedBootstrap",
    "PairedBootstrapTasks",
    "PairedQueries",
    "PairedSeeds",
    "Summary",
    "TwoWay",
    "after_holm",
    "brief",
    "holm",
    "intervals_of_means",
    "paired_bootstrap",
    "paired_bootstrap_tasks",
    "paired_queries",
    "paired_seeds",
    "summary",
    "two_way",
    "verdict",
]
