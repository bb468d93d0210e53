"""The folder of labels: a retrieval data set in BEIR's layout, and ``labels.json``, from which it is made.

``labels.json`` is written first and completely; the other files follow from it. Where a kill left them behind it, they
are written again when the folder is opened, closed or read as a data set. It records the hashes of the files, so that
a file that was made or changed by anything else is recognised and never replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from opencse.errors import UserError
from opencse.files import hash_file, held_lock, made_folder, remove_unfinished, writing
from opencse.files import write_text as write_atomically
from opencse.labelling.documents import json_line
from opencse.labelling.labels import Labels, SplitName
from opencse.outputs import LOCK, foreign_files_message, names_in
from opencse.records import read_record
from opencse.search.rows import exported_id

T = TypeVar("T")
LABELS, CORPUS, QUERIES = "labels.json", "corpus.jsonl", "queries.jsonl"
QRELS: dict[SplitName, str] = {"test": "qrels/test.tsv", "dev": "qrels/dev.tsv"}
_SMALL = (QUERIES, *QRELS.values())
_HEADER = "query-id\tcorpus-id\tscore\n"


class LabelFolder:
    """The files of labels. One process at a time may write them; see `opened`.

    Attributes:
        path: the path of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def opened(self) -> Iterator[Labels]:
        """Gives the labels of the folder for the block, in which no other process can change them.

        Raises:
            UserError: if the folder holds files of anything else, or another process has it open.
        """
        self._require_ours()
        with made_folder(self.path), held_lock(self.path / LOCK, "another process is labelling there; stop it first"):
            for folder in (self.path, self.path / "qrels"):
                remove_unfinished(folder)
            labels = self.read()
            if self._is_behind(labels, CORPUS):  # only the index can write it again
                labels = labels.model_copy(update={"corpus": None})
            yield self._caught_up(labels)
            self._caught_up(self.read())

    def read(self) -> Labels:
        """The labels that were saved; none if the folder is new.

        Raises:
            UserError: for a file of another program, or a damaged one.
        """
        file = self.path / LABELS
        if not file.exists():
            self._require_ours()
            return Labels()
        return read_record(Labels, file)

    def catch_up(self) -> None:
        """Writes queries and judgements again where a kill left them behind the labels; for readers of the data set.

        A folder of anything else is left alone.

        Raises:
            UserError: if the documents were left behind, which only the index has, or another process is labelling.
        """
        try:
            labels = self.read()
        except UserError:
            return
        if self._is_behind(labels, CORPUS):
            raise UserError(
                f"{self.path}: opencse label was stopped while it wrote the documents; start it again with this --out"
            )
        if any(self._is_behind(labels, name) for name in _SMALL):
            with self.opened():
                pass

    def save(self, labels: Labels) -> Labels:
        """Writes the labels, then queries and judgements; returns the labels with the hashes of these files.

        Raises:
            UserError: if one of the files was changed by anything else; then nothing is written.
            OSError: if they cannot be written.
        """
        contents = self._contents(labels)
        files = dict(labels.files)
        for name in _SMALL:
            before = self._require_known(name, files.get(name, ()))
            text = contents.get(name)
            after = None if text is None else hashlib.sha256(text.encode()).hexdigest()
            files[name] = tuple(dict.fromkeys(one for one in (after, before) if one is not None))
        saved = labels.model_copy(update={"files": files})
        self._write_labels(saved)
        for name in _SMALL:
            self._write_small(self.path / name, contents.get(name))
        return saved

    def write_corpus(self, labels: Labels, write: Callable[[Path], T], changed: Callable[[T], Labels]) -> Labels:
        """Replaces the file of the documents and saves the labels that belong to it; returns them.

        Args:
            labels: as they are.
            write: writes the documents to a path.
            changed: makes the new labels of its result.

        Raises:
            UserError: if the file was changed by anything else, or cannot be written.
        """
        before = self._require_known(CORPUS, labels.files.get(CORPUS, ()))
        with writing(self.path / CORPUS) as unfinished:
            result = changed(write(unfinished))
            known = tuple(dict.fromkeys(one for one in (hash_file(unfinished), before) if one is not None))
            recorded = result.model_copy(update={"files": {**result.files, CORPUS: known}})
            self._write_labels(recorded)
        return self.save(recorded)

    def has_corpus(self) -> bool:
        """Whether the file of the documents exists."""
        return (self.path / CORPUS).is_file()

    def _contents(self, labels: Labels) -> dict[str, str]:
        """The text of each small file; without those that would hold nothing."""
        prefix = "query-" if labels.corpus is None else labels.corpus.query_prefix
        name_of = {query.number: f"{prefix}{query.number}" for query in labels.queries}
        lines: dict[SplitName, list[str]] = {"test": [], "dev": []}
        for query in labels.queries:
            lines[labels.split_of(query.number)] += [
                f"{name_of[query.number]}\t{exported_id(text_id)}\t{level}\n"
                for text_id, level in query.levels().items()
            ]
        contents = {QRELS[split]: _HEADER + "".join(judged) for split, judged in lines.items() if judged}
        if labels.queries:
            texts = [json_line({"_id": name_of[query.number], "text": query.text}) for query in labels.queries]
            contents[QUERIES] = "".join(texts)
        return contents

    def _write_labels(self, labels: Labels) -> None:
        text = json.dumps(labels.model_dump(mode="json"), ensure_ascii=False, indent=1) + "\n"
        write_atomically(self.path / LABELS, text)

    def _write_small(self, path: Path, text: str | None) -> None:
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, text)

    def _caught_up(self, labels: Labels) -> Labels:
        is_behind = any(self._is_behind(labels, name) for name in _SMALL)
        return self.save(labels) if is_behind else labels

    def _is_behind(self, labels: Labels, name: str) -> bool:
        """Whether a file is missing or as it was before the last change; not where anything else changed it."""
        path, known = self.path / name, labels.files.get(name, ())
        now = hash_file(path) if path.is_file() else None
        if name == CORPUS:
            return now in known[1:]
        text = self._contents(labels).get(name)
        latest = None if text is None else hashlib.sha256(text.encode()).hexdigest()
        return now != latest and (now is None or now in known)

    def _require_known(self, name: str, hashes: tuple[str, ...]) -> str | None:
        """The hash of a file; None if it does not exist.

        Raises:
            UserError: if it is not as it was written.
        """
        path = self.path / name
        if not path.exists() and not path.is_symlink():
            return None
        if path.is_symlink() or not path.is_file() or hash_file(path) not in hashes:
            raise UserError(
                f"{path}: was changed or made by another program, and is not replaced; move it to another folder, or "
                "choose another --out"
            )
        return hash_file(path)

    def _require_ours(self) -> None:
        names = names_in(self.path)
        if names and LABELS not in names:
            raise UserError(foreign_files_message(self.path, names))
