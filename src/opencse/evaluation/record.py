"""One record for all suites, as `opencse evaluate --json` writes it: the scores, their data, and what made them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import AwareDatetime, Field, FiniteFloat, SerializerFunctionWrapHandler, model_serializer, model_validator

from opencse.arrays import Floats
from opencse.environment import Environment, installed
from opencse.records import JsonRecord
from opencse.settings import Settings
from opencse.statistics.difference import Interval
from opencse.statistics.queries import PairedQueries

TextForm = Literal["prepared", "raw", "unknown"]
"""``prepared``: tokenised and (but for SICK) lower-cased, as the papers evaluate; ``raw``: as written."""
AVERAGE = "average"
PARTIAL = "average_of_present"
"""A mean over fewer tasks than a published average has."""


class DataRecord(Settings):
    """What a model was evaluated on.

    Attributes:
        source: folder, file or data set.
        text: its form.
        sha256: a hash of each task's content, by task.
    """

    source: str
    text: TextForm
    sha256: dict[str, str]


class Score(Settings):
    """One number.

    Attributes:
        suite: name of the suite, for instance ``sts``.
        task: name of the task or data set; ``average`` for a mean over tasks, ``average_of_present`` for one over fewer
            tasks than published averages have.
        measure: for instance ``spearman``, ``accuracy``, ``ndcg_at_10``. After a dot comes a part or another way to
            score the same task: ``spearman.MSRpar``, ``spearman.wmean``, ``spearman.up_to_3``.
        value: in percent, or x 100.
        n: what it is over: pairs, test sentences, queries; of an average tasks.
        interval: 95% interval; None where there is none.
        complete: whether it is over the published data; if False, do not compare it with published values. None: of
            data that is not published in one size.
        extras: whatever else the suite knows of the score, see docs/evaluation.md.
        arrays: the values behind it, by name, for tests over pairs; not in files.
    """

    suite: str
    task: str
    measure: str
    value: FiniteFloat
    n: int
    interval: Interval | None = None
    complete: bool | None = None
    extras: dict[str, Any] = Field(default_factory=dict)
    arrays: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)

    @property
    def name(self) -> str | None:
        """Its flat name (``sts.sts12``, ``transfer.mrpc.f1``, ``sts.average``); None for one that is not the task's."""
        if "." in self.measure or self.measure == "pearson":
            return None
        main = self.task in (AVERAGE, PARTIAL) or self.measure in ("spearman", "accuracy")
        return f"{self.suite.replace('-', '_')}.{self.task}{'' if main else f'.{self.measure}'}"

    @model_serializer(mode="wrap")
    def _without_nothing(self, dumped: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dumped(self).items() if value not in (None, {})}


class Compared(PairedQueries):
    """The difference of nDCG@10 from another row of a table, over the same queries.

    Attributes:
        task: the data set.
        than: name of the other row.
    """

    task: str
    than: str


class EvaluationRecord(JsonRecord):
    r"""The scores of a model on the tasks of one suite, and what is needed to repeat the evaluation.

    Attributes:
        schema_version: changes when a key changes its meaning.
        opencse: this library's version; None if it runs without being installed.
        created: when, UTC.
        model: folder or name of the model.
        pooling: how token vectors became one vector.
        code: classes of the model folder's own code that made the vectors (``--trust-remote-code``); None: none did.
        data: what the model was evaluated on.
        environment: versions and machine.
        seconds: wall-clock time of encoding and scoring.
        settings: how the suite was scored, by name.
        scores: in the order of the tables; averages are last.
        compared: differences from other rows of a table of retrieval scores.

    Example:
        >>> import opencse
        >>> from pathlib import Path
        >>> lines = [f"{score}\t{text}\ta cat sleeps\n" for score, text in ((5, "a cat sleeps"), (0, "rain"))]
        >>> Path("mine/stsb").mkdir(parents=True)
        >>> _ = Path("mine/stsb/test.tsv").write_text("".join(lines))
        >>> record = opencse.evaluate("bag-of-words", "mine", tasks=["stsb"])
        >>> {name: round(value) for name, value in record.values().items()}, record["stsb", "pearson"].n
        ({'sts.stsb': 100}, 2)
    """

    schema_version: Literal[2] = 2
    opencse: str | None = Field(default_factory=lambda: installed("opencse"))
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    model: str | None = None
    pooling: str | None = None
    code: list[str] | None = None
    data: DataRecord
    environment: Environment
    seconds: FiniteFloat
    settings: dict[str, Any] = Field(default_factory=dict)
    scores: list[Score]
    compared: list[Compared] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _not_of_before(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic passes whatever is in the file
        if isinstance(data, Mapping) and data.get("schema_version") == 1:
            raise ValueError("written by an earlier version, whose scores have another form; evaluate the model again")
        return data

    def find(self, task: str, measure: str) -> Score | None:
        """The score of a task by a measure; None where there is none."""
        return next((one for one in self.scores if (one.task, one.measure) == (task, measure)), None)

    def __getitem__(self, task_and_measure: tuple[str, str]) -> Score:
        """``record["stsb", "spearman"]``: the score that is there; a KeyError for another one."""
        score = self.find(*task_and_measure)
        if score is None:
            raise KeyError(task_and_measure)
        return score

    @property
    def tasks(self) -> list[str]:
        """The tasks in their order, without averages."""
        return [task for task in dict.fromkeys(one.task for one in self.scores) if task not in (AVERAGE, PARTIAL)]

    def values(self) -> dict[str, float]:
        """The scores by flat name, in percent: ``sts.sts12``, ``transfer.mrpc.f1``, ``sts.average``."""
        return {one.name: one.value for one in self.scores if one.name is not None}

    def also_by(self, grouping: str) -> dict[str, float]:
        """Spearman x 100 of the tasks of STS by another grouping of their pairs, as ``sts_GROUPING.TASK``."""
        return {
            f"{one.suite}_{grouping}.{one.task}": one.value
            for one in self.scores
            if one.measure == f"spearman.{grouping}"
        }

    def arrays(self) -> dict[str, Floats]:
        """The values behind the scores by ``TASK.NAME``; empty for suites without tests over pairs, or from a file."""
        return {f"{one.task}.{name}": values for one in self.scores for name, values in one.arrays.items()}
