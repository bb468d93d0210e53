"""`label` and `label_scores`: collect judged queries for indexes on a local page, and score their searches by them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.commands.declared import Typed, command
from opencse.commands.shared import Device, IndexModel, OutFolder, Reporter, TrustRemoteCode
from opencse.errors import UserError, require_once
from opencse.numerals import number_of
from opencse.progress import SILENT, Progress

if TYPE_CHECKING:
    from opencse.commands.opening import Model
    from opencse.labelling.labels import Labels
    from opencse.labelling.pooling import PooledIndexes
    from opencse.labelling.session import LabelScores, LabelSession

OUT = "queries"
"""The folder of labels, by default."""


Folders = Annotated[
    "str | Path | Sequence[str | Path]",
    Typed(
        "Folder of the index; of several indexes of the same texts, the hits of all are judged.",
        repeated=True,
        metavar="INDEX",
        said="of the index, or a list of those of several indexes of the same texts.",
    ),
]


@command
def label(
    folders: Folders,
    out: OutFolder = OUT,
    *,
    queries: Annotated[
        str | Path | Sequence[str] | None,
        Typed("File of queries to judge, one per line; more can be typed on the page.", file=True),
    ] = None,
    depth: Annotated[int, Typed(flags=("-k", "--depth"), least=1, most=50)] = 10,
    split: Annotated[float | None, Typed(least=0, most=0.9)] = None,
    port: Annotated[int, Typed(least=0, most=65535)] = 8765,
    open: Annotated[bool | None, Typed(flags=("--open/--no-open",))] = None,
    model: IndexModel = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> None:
    """Shows a page on which you type queries and mark the texts of an index that answer them, until it is stopped.

    To compare models, give an index of the same texts by each of them: the hits of all are judged together, so that
    no model scores too low because only hits of another one were judged.

    The folder ``out`` is a data set in BEIR's layout at any time: for ``adapt(dev=...)`` and ``evaluate(data=...)``.
    It is saved after each mark; the same call continues later. The page is for this machine alone (127.0.0.1), and for
    those who have the address that is printed: other users of the machine get 403.

    Example:
        >>> import opencse
        >>> opencse.label("my-index", "queries", queries=["how do I reset the valve"])  # doctest: +SKIP
        >>> opencse.label(["first-index", "my-index"], "queries")  # doctest: +SKIP

    Args:
        out: folder of the labels; a new or empty one, or one of earlier labels.
        queries: queries to judge, or the file of them, one per line; more can be typed on the page.
        depth: Hits of each search (vectors, BM25, hybrid) to judge.
        split: Share of the queries that `adapt --dev` reads, for instance 0.5; `evaluate` reads the others. 0: both
            read all. By default as before, at first 0.
        port: Port of this machine for the page; 0 takes a free one.
        open: Open the page in a browser; by default if this is a terminal of a machine with a display.

    Raises:
        UserError: for bad input, a folder ``out`` with files of anything else, a port that is taken, or a package that
            is missing.
    """
    from opencse.environment import require_packages
    from opencse.labelling.labels import LabelFolder
    from opencse.labelling.session import LabelSession
    from opencse.outputs import paths_of, require_apart

    require_packages("opencse label", "serve", "fastapi", "uvicorn", "prometheus_client")
    from opencse.serving.label_app import create_label_app
    from opencse.serving.server import address, bind, run

    paths = _folders(folders, model)
    read = paths_of(*paths, queries if isinstance(queries, str | Path) else None)
    require_apart(out, read=read, models=paths_of(model))
    texts = _query_texts(queries)
    label_folder = LabelFolder(Path(out))
    with (
        _opened(paths, model, progress, device, trust_remote_code) as indexes,
        label_folder.opened() as labels,
        closing(bind("127.0.0.1", port)) as listening,
    ):
        session = LabelSession(indexes, label_folder, labels, depth=depth, progress=progress)
        if split is not None:
            session.set_split(split or None)
        _report_start(session, session.add_hits(), session.add_queries(texts), progress)
        models = [index.info().model for index in indexes.indexes]
        app = create_label_app(session, indexes=[str(one) for one in paths], models=models)
        url = f"{address(listening)}/?token={app.state.token}"
        show = open if open is not None else _has_display()

        def ready() -> None:
            progress.say(f"{url} is the page; every mark is saved in {out}; stop with Ctrl-C")
            if show:
                _open(url, progress)

        run(app, listening, grace=5, ready=ready)
        _report_end(session.labels, Path(out), models, progress)


@command
def label_scores(
    folders: Folders,
    out: OutFolder = OUT,
    *,
    model: IndexModel = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> LabelScores:
    r"""Scores vectors, BM25 and hybrid search of one or several indexes by the labels in a folder.

    Example:
        >>> import opencse
        >>> print(*opencse.label_scores("my-index", "queries").lines(), sep="\n")  # doctest: +SKIP

    Args:
        out: folder of the labels.

    Returns:
        The scores; without systems where fewer than five queries have a right text.

    Raises:
        UserError: if the folder has no labels, there is no index, or the indexes have different texts.
    """
    from opencse.labelling.labels import LabelFolder
    from opencse.labelling.session import score_labels

    paths = _folders(folders, model)
    labels = LabelFolder(Path(out)).read()
    if not labels.queries:
        names = shlex.join(map(str, paths))
        raise UserError(f"{out}: no labels in it; mark some with `opencse label {names} --out {shlex.quote(str(out))}`")
    with _opened(paths, model, progress, device, trust_remote_code) as indexes:
        indexes.require_same_texts(progress)
        return score_labels(indexes, labels)


def _folders(folders: str | Path | Sequence[str | Path], model: object) -> list[Path]:
    """The folders of the indexes.

    Raises:
        UserError: for no index, the same one twice, or a model for several of them.
    """
    paths = [Path(one) for one in ([folders] if isinstance(folders, str | Path) else folders)]
    if not paths:
        raise UserError("no index; give the folder of one")
    require_once([str(one.resolve()) for one in paths], "index")
    if len(paths) > 1 and model is not None:
        raise UserError("--model is the model of one index; leave it out with several")
    return paths


@contextmanager
def _opened(
    paths: Sequence[Path], model: Model | None, progress: Progress, device: str | None, trust_remote_code: bool
) -> Iterator[PooledIndexes]:
    """Opens indexes with their models. They are named by their last folders, or where these are equal, completely."""
    from opencse.commands.opening import encoder_of
    from opencse.labelling.pooling import PooledIndexes
    from opencse.search.index import Index

    last = [one.resolve().name for one in paths]
    names = last if len(set(last)) == len(last) else [str(one) for one in paths]
    with ExitStack() as stack:
        indexes = [stack.enter_context(Index.open(one)) for one in paths]
        for index in indexes:
            index.encoder = encoder_of(index.info(), model, progress, device, trust_remote_code)
        yield PooledIndexes(dict(zip(names, indexes, strict=True)))


def _query_texts(queries: str | Path | Sequence[str] | None) -> list[str]:
    """The queries of a list, or of a file."""
    from opencse.labelling.labels import checked_query
    from opencse.text.given import read_list

    if queries is None:
        return []
    if isinstance(queries, str | Path):
        texts, source = read_list(str(queries)), f"{queries}, query"
    else:
        texts, source = list(queries), "query"
    for number, text in enumerate(texts, start=1):
        try:
            checked_query(text)
        except UserError as error:
            raise UserError(f"{source} {number}: {error}") from None
    return texts


def _report_start(session: LabelSession, to_judge: int, added: int, progress: Progress) -> None:
    labels = session.labels
    known = len(labels.queries) - added
    if known:
        progress.say(
            f"{session.folder}: continues with {number_of(known, 'query')}, {len(labels.answered):,} of them answered"
        )
    if to_judge:
        have = number_of(to_judge, "finished query has", "finished queries have")
        progress.say(f"{have} hits that were not shown before; the page opens them again")
    if added:
        progress.say(f"{number_of(added, 'query')} added")
    if labels.split is not None:
        progress.say(f"{labels.split:.0%} of the queries are dev queries, the others are test queries")
    for note in session.notes:
        progress.say(note)


def _report_end(labels: Labels, out: Path, models: Sequence[str], progress: Progress) -> None:
    from opencse.labelling.labels import TARGET

    count = len(labels.answered)
    aim = "" if count >= TARGET else f"; aim for {TARGET}"
    progress.say(f"{out}: {count:,} of {len(labels.queries):,} queries have a right text{aim}")
    if count:
        names = shlex.join(dict.fromkeys(model or "MODEL" for model in models))
        progress.say(f"next: opencse evaluate {names} --suite retrieval --data {shlex.quote(str(out))}")


def _has_display() -> bool:
    """Whether a person sits at a terminal of this machine, with a display for a browser."""
    if not (sys.stdout and sys.stdout.isatty()) or "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(url: str, progress: Progress) -> None:
    import webbrowser

    if not webbrowser.open(url):
        progress.say("no browser could be opened; open the address yourself")
