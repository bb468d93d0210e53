"""The seven transfer tasks, and your own: labelled sentences, or pairs of them, in a folder."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from opencse.errors import UserError, nearest
from opencse.evaluation.classifiers.cross_validation import Scheme
from opencse.evaluation.labelled import Examples, Labelled, LabelledLine
from opencse.evaluation.suite import TaskData
from opencse.io import require_folder
from opencse.text.files.lines import read_lines

TRAIN_PHRASES = "train_phrases"
"""SST2's file of phrases: SentEval's training set."""


@dataclass(frozen=True)
class TransferTask:
    """One transfer task.

    Attributes:
        key: name in results and of its folder, for instance ``mr``.
        title: name in tables, for instance ``MR``.
        scheme: ``nested`` (one file ``all.tsv``), ``kfold`` (``train``, ``test``), ``split`` (``train``, ``dev``,
            ``test``).
        pairs: whether an example is two sentences.
        labels: how each class may be written, in SentEval's order of the classes; empty: as in the training set.
        published: the published number of examples by part; empty for your own tasks.
        f1: whether the F1 of class 1 is reported in addition to the accuracy.
    """

    key: str
    title: str
    scheme: Scheme
    pairs: bool = False
    labels: tuple[tuple[str, ...], ...] = (("0",), ("1",))
    published: Mapping[str, int] = field(default_factory=dict)
    f1: bool = False


TREC_LABELS = (("ABBR", "2"), ("DESC", "0"), ("ENTY", "1"), ("HUM", "3"), ("LOC", "4"), ("NUM", "5"))

TRANSFER_TASKS: dict[str, TransferTask] = {
    task.key: task
    for task in (
        TransferTask("mr", "MR", "nested", published={"all": 10_662}),
        TransferTask("cr", "CR", "nested", published={"all": 3775}),
        TransferTask("subj", "SUBJ", "nested", published={"all": 10_000}),
        TransferTask("mpqa", "MPQA", "nested", published={"all": 10_606}),
        TransferTask("sst2", "SST2", "split", published={"train": 67_349, "dev": 872, "test": 1821}),
        TransferTask("trec", "TREC", "kfold", labels=TREC_LABELS, published={"train": 5452, "test": 500}),
        TransferTask("mrpc", "MRPC", "kfold", pairs=True, published={"train": 4076, "test": 1725}, f1=True),
    )
}
"""The seven tasks in the order of every published table."""


@dataclass(frozen=True, eq=False)
class TransferExamples(Labelled):
    """The examples of one task; see ``Labelled``.

    Attributes:
        task: what is published about it.
        folder: of its files.
    """

    task: TransferTask
    folder: Path

    @property
    def where(self) -> str:
        """The file of the training examples, for messages."""
        return str(self.folder / self.files[0])

    @property
    def complete(self) -> bool:
        """Whether the numbers of examples are those published; if not, published scores do not compare."""
        return self.counts == dict(self.task.published)

    @property
    def repeated(self) -> int:
        """The number of test rows (``nested``: of all rows) whose text occurs in another row that may be fitted on."""
        rows = {name: [*zip(*part.sides, strict=True)] for name, part in self.parts.items()}
        tested = rows.pop("all", None) or rows.pop("test")
        times = Counter(tested) if not rows else Counter(dict.fromkeys(chain(*rows.values()), 2))
        return sum(times[row] > 1 for row in tested)

    def sha256(self) -> str:
        """Returns a hash of the content, whatever the order of the lines that tie."""
        digest = hashlib.sha256()
        for name, part in self.parts.items():
            for label, *texts in zip(part.labels.tolist(), *part.sides, strict=True):
                digest.update("\t".join([name, self.classes[label], *texts, "\n"]).encode())
        return digest.hexdigest()


TransferData = TaskData[TransferExamples]


def require_tasks(folder: str | Path) -> Path:
    """The folder of the tasks.

    Raises:
        UserError: if it does not exist.
    """
    require_folder(Path(folder), f"give a folder that holds {', '.join(TRANSFER_TASKS)}")
    return Path(folder)


def load_transfer(folder: Path, tasks: Sequence[str] | None = None) -> TransferData:
    """Reads the tasks of a local folder, ``<task>/<part>.tsv``: lines ``label<TAB>sentence`` (MRPC: two sentences).

    MR, CR, SUBJ and MPQA have one part ``all``; TREC and MRPC ``train`` and ``test`` (a ``dev`` there is joined to
    ``train``, as SentEval has it); SST2 ``train_phrases`` if it exists (the 67k phrases SentEval trains on), else
    ``train``, and ``dev`` and ``test``. Labels are 0 and 1; TREC's 0 DESC, 1 ENTY, 2 ABBR, 3 HUM, 4 LOC, 5 NUM, or
    these names.

    Any other folder named in ``tasks`` is a task of your own, whose files decide its protocol: ``all.tsv`` is
    cross-validated within cross-validation, ``train``, ``dev`` and ``test`` are used as such, ``train`` and ``test``
    with cross-validation on ``train``. A line of three fields is a pair; labels may be any words.

    Args:
        folder: holds one folder per task.
        tasks: names of folders; None: all of the seven that are in the folder.

    Raises:
        UserError: naming what is missing, or the file and line at fault.
    """
    folder = require_tasks(folder)
    folders = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    if tasks is None:
        keys = [key for key in TRANSFER_TASKS if key in folders]
    else:
        names = list(dict.fromkeys(tasks))
        keys = [key for key in TRANSFER_TASKS if key in names] + [key for key in names if key not in TRANSFER_TASKS]
    if not keys:
        raise UserError(
            f"{folder}: no transfer task {'there' if tasks is None else 'chosen'}; known: "
            f"{', '.join(TRANSFER_TASKS)}; folders there: {', '.join(folders) or 'none'}"
        )
    for key in keys:
        if key not in folders:
            raise UserError(
                f"{folder}: no folder {key!r}{nearest(key, folders)}; folders there: {', '.join(folders) or 'none'}; "
                "name one of them"
            )
    loaded = {key: _load(folder / key, TRANSFER_TASKS.get(key)) for key in keys}
    absent = tuple(key for key in TRANSFER_TASKS if key not in folders) if tasks is None else ()
    return TransferData(str(folder), "unknown", loaded, absent)


def _load(folder: Path, known: TransferTask | None) -> TransferExamples:
    stems = {path.stem for path in folder.glob("*.tsv")}
    scheme = known.scheme if known else _scheme(folder, stems)
    files = _files(folder, scheme, stems, phrases=known is not None and known.key == "sst2")
    read = {part: [_read(folder / f"{name}.tsv") for name in names] for part, names in files.items()}
    fields = len(next(iter(read.values()))[0][0].texts)
    task = known or TransferTask(folder.name, folder.name, scheme, pairs=fields == 2, labels=())
    lines = {part: [line for lines in several for line in lines] for part, several in read.items()}
    fitted = next(iter(lines.values()))
    written = task.labels or tuple((label,) for label in sorted({line.label for line in fitted}))
    if len(written) < 2:
        raise UserError(f"{fitted[0].where}: every label is {fitted[0].label!r}; a task needs two classes or more")
    return TransferExamples(
        task=task,
        parts={part: _examples(several, written, pairs=task.pairs) for part, several in lines.items()},
        classes=tuple(names[0] for names in written),
        folder=folder,
        files=tuple(f"{name}.tsv" for names in files.values() for name in names),
    )


def _scheme(folder: Path, stems: set[str]) -> Scheme:
    if "all" in stems:
        return "nested"
    return "split" if {"train", "dev", "test"} <= stems else "kfold"


def _files(folder: Path, scheme: Scheme, stems: set[str], *, phrases: bool) -> dict[str, list[str]]:
    """The names of the files of each part."""
    match scheme:
        case "nested":
            files = {"all": ["all"]}
        case "kfold":
            files = {"train": ["train", "dev"] if "dev" in stems else ["train"], "test": ["test"]}
        case "split":
            train = TRAIN_PHRASES if phrases and TRAIN_PHRASES in stems else "train"
            files = {"train": [train], "dev": ["dev"], "test": ["test"]}
    for name in (name for names in files.values() for name in names):
        if name not in stems:
            needed = ", ".join(f"{n}.tsv" for names in files.values() for n in names)
            present = ", ".join(sorted(f"{n}.tsv" for n in stems)) or "none"
            raise UserError(f"{folder / name}.tsv: missing; needed: {needed}; .tsv files there: {present}; add it")
    return files


def _read(path: Path) -> list[LabelledLine]:
    """The lines of a file that are not blank; white space within a sentence becomes one space, as in SentEval."""
    lines: list[LabelledLine] = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        label, *texts = (" ".join(part.split()) for part in line.split("\t"))
        where = f"{path}, line {number}"
        if len(texts) not in (1, 2):
            raise UserError(
                f"{where}: {len(texts) + 1} field(s); a line is label<TAB>sentence, or with a second <TAB>sentence"
            )
        if not label or not all(texts):
            raise UserError(f"{where}: the {'sentence' if label else 'label'} is empty; fill it or drop the line")
        lines.append(LabelledLine(where, label, tuple(texts)))
    if not lines:
        raise UserError(f"{path}: no lines but blank ones; give label<TAB>sentence on each")
    return lines


def _examples(lines: list[LabelledLine], written: tuple[tuple[str, ...], ...], *, pairs: bool) -> Examples:
    for line in lines:
        if len(line.texts) != (2 if pairs else 1):
            raise UserError(
                f"{line.where}: {len(line.texts) + 1} fields, {3 if pairs else 2} expected: "
                f"label<TAB>sentence{'<TAB>sentence' if pairs else ''}"
            )
    number = {name: position for position, names in enumerate(written) for name in names}
    return Examples.of(lines, number, f"the classes are {', '.join('/'.join(names) for names in written)}")
