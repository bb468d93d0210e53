"""A comparison as tables: for the terminal, and as Markdown to keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opencse.analysis.significance import Summary, brief
from opencse.environment import Environment
from opencse.errors import printable
from opencse.markdown import as_text
from opencse.studies.comparison import Comparison, Row
from opencse.studies.record import RunRecord

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "-"


def shown(found: Summary | None) -> str:
    """``mean ± sd``, or the one value there is."""
    if found is None:
        return NOTHING
    return f"{found.mean:.2f}" if found.sd is None else f"{found.mean:.2f} ± {found.sd:.2f}"


def headline(metric: str) -> bool:
    """Whether a score is one of a suite's summary: an average, or a retrieval set's nDCG."""
    return metric.rsplit(".", 1)[-1] in {"average", "average_of_present", "ndcg_at_10"}


def comparison_table(comparison: Comparison) -> Table:
    """One row a start and recipe: every headline score, and the difference from the baseline in the metric."""
    from rich.table import Table
    from rich.text import Text

    metrics = columns(comparison)
    table = Table(title=f"{comparison.metric}, beside {comparison.baseline}", caption=judged(comparison))
    table.add_column("Start")
    table.add_column("Recipe")
    table.add_column("Seeds", justify="right")
    for metric in metrics:
        table.add_column(metric, justify="right")
    table.add_column("Beside the start", justify="right")
    table.add_column("Difference")
    for cells in rows(comparison, metrics):
        table.add_row(*(Text(cell) for cell in cells))
    return table


def markdown(comparison: Comparison, records: Sequence[RunRecord], command: str) -> str:
    """The whole comparison to keep in a repository: the table, task by task, how it was made."""
    metrics = columns(comparison)
    head = ["start", "recipe", "seeds", *metrics, "beside the start", f"beside {comparison.baseline}"]
    tasks = [name for name in _all_metrics(comparison) if name not in metrics]
    lines = [
        f"# {comparison.metric}: {len({row.recipe for row in comparison.rows})} recipes beside "
        f"{as_text(comparison.baseline)}",
        "",
        f"    {printable(command)}",
        "",
        *_table(head, rows(comparison, metrics)),
        "",
        judged(comparison),
        "",
        f"Mean ± standard deviation over seeds. Differences are of {comparison.metric}, paired by seed, with Student's "
        f"95% interval; p is after Holm over all comparisons with {as_text(comparison.baseline)}, or all with a start.",
        "",
        *_pairs(comparison.rows),
        "## Task by task",
        "",
        *_table(
            ["start", "recipe", *tasks],
            [[row.start, row.recipe, *(shown(row.metrics.get(name)) for name in tasks)] for row in comparison.rows],
        ),
        "",
        _made(records),
        "",
    ]
    return "\n".join(lines)


def judged(comparison: Comparison) -> str:
    """Which encoders the scores are of; where they are those kept, how many of them are the untrained start."""
    if comparison.judged == "last":
        return "Judged: the encoder of each run's last step. Beside the start: as it was read before training."
    runs, starts = (sum(n) for n in zip(*((len(r.scores), r.starts_kept) for r in comparison.rows), strict=True))
    none = " Nothing is learnt here about the recipes; judge their last encoders." if starts == runs else ""
    return (
        f"Judged: the encoder that each run kept on the dev pairs. The start was kept in {starts} of {runs} runs.{none}"
    )


def columns(comparison: Comparison) -> list[str]:
    """The headline scores, the metric first."""
    others = [name for name in _all_metrics(comparison) if headline(name) and name != comparison.metric]
    return [comparison.metric, *others]


def rows(comparison: Comparison, metrics: Sequence[str]) -> list[list[str]]:
    """The cells: of each start before training, in every reading, then of its recipes."""
    cells: list[list[str]] = []
    for start in dict.fromkeys(row.start for row in comparison.rows):
        for own in comparison.starts:
            if own.start == start:
                scores = [f"{own.results[name]:.2f}" if name in own.results else NOTHING for name in metrics]
                cells.append([start, f"({own.reading})", "", *scores, "", ""])
        for row in comparison.rows:
            if row.start == start:
                summaries = [shown(row.metrics.get(name)) for name in metrics]
                beside = [_beside_start(row), row.verdict or "baseline"]
                cells.append([start, row.recipe, str(len(row.scores)), *summaries, *beside])
    return cells


def _beside_start(row: Row) -> str:
    kept = f"start kept in {row.starts_kept} of {len(row.scores)}" if row.starts_kept else ""
    found = NOTHING if row.beside_start is None else brief(row.beside_start)
    if row.starts_kept == len(row.scores):
        return kept
    return f"{found}; {kept}" if kept else found


def expected_table(expected: Mapping[str, float], found: Mapping[str, Summary]) -> Table:
    """A paper's numbers beside those got, score by score; ``-`` where a suite was not run."""
    from rich.table import Table

    table = Table(title="published beside got")
    for name, justify in (("Score", "left"), ("Published", "right"), ("Got", "right"), ("Difference", "right")):
        table.add_column(name, justify="left" if justify == "left" else "right")
    for name, value in expected.items():
        got = found.get(name)
        gap = NOTHING if got is None else f"{got.mean - value:+.2f}"
        table.add_row(name, f"{value:.2f}", shown(got), gap)
    return table


def _pairs(given: Sequence[Row]) -> list[str]:
    """How many seeds' models differ from the baseline's beyond what other sentence pairs would bring."""
    tested = [row for row in given if row.over_pairs]
    if not tested:
        return []
    lines = []
    for row in tested:
        bootstraps = [pairs.bootstrap for pairs in row.over_pairs.values()]
        better = sum(b.interval is not None and b.interval[0] > 0 for b in bootstraps)
        worse = sum(b.interval is not None and b.interval[1] < 0 for b in bootstraps)
        lines.append([row.start, row.recipe, f"{better}", f"{worse}", f"{len(bootstraps) - better - worse}"])
    resamples = next(iter(tested[0].over_pairs.values())).bootstrap.resamples
    return [
        f"Seed by seed, {resamples:,} bootstrap samples of the sentence pairs: models whose mean over the STS tasks is "
        "beyond the baseline's (95%).",
        "",
        *_table(["start", "recipe", "better", "worse", "neither"], lines),
        "",
    ]


def _all_metrics(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(name for row in comparison.rows for name in row.metrics))


def _table(head: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(map(as_text, head)) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(map(as_text, row)) + " |" for row in cells),
    ]


def _made(records: Sequence[RunRecord]) -> str:
    """Versions, machine, time."""
    runs = [record for record in records if record.recipe is not None]
    last: Environment = records[-1].environment
    train = sum(record.train_seconds or 0.0 for record in runs)
    judge = sum(record.judge_seconds for record in records)
    facts = ", ".join(f"{key} {value}" for key, value in last.model_dump(mode="json").items() if value is not None)
    return (
        f"{len(runs)} runs, {train / 3600:.2f} h of training and {judge / 3600:.2f} h of judging; opencse "
        f"{records[-1].opencse}, {facts}; {max(record.created for record in records):%Y-%m-%d}."
    )
