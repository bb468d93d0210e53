"""What search finds and what it costs: words, vectors and both; exact and approximate; the first query and the second.

    python benchmarks/search.py quality --data DATA/retrieval --models opencse-mini FOLDER --out study
    python benchmarks/search.py speed --corpus SENTENCES.txt --sentences 20000 --out study
    python benchmarks/search.py words --corpus SENTENCES.txt --sentences 100000 --out study

`quality` prints nDCG@10 x 100 over the test queries of each data set in BEIR's layout, as `opencse evaluate --suite
retrieval` does: of the vectors alone, of BM25 alone, and of both (hybrid search); and of documents cut into passages.
`speed` prints the recall and the time of each kind of index, and the time of `opencse nearest` when it is
called twice, each in a process of its own. `words` prints the time of the first hybrid query of a process where the
words are counted, and where they were kept. Indexes stay in --out and are used again. search_peers.py compares the
searches with FAISS's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import islice, product
from pathlib import Path
from typing import get_args

from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import RetrievalTask, load_retrieval
from opencse.progress import Terminal
from opencse.ranking import ndcg
from opencse.search.approximate import IndexKind
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.keyword_index import best_rows
from opencse.search.rows import IndexRow
from opencse.text.readers import Source

DEPTH = 10
ALONE = 50
ROUNDS = 5


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["quality", "speed", "words"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--models", nargs="+", default=["opencse-mini"])
    parser.add_argument("--texts", nargs="+", default=["whole", "passages"], choices=["whole", "passages"])
    parser.add_argument(
        "--languages", nargs="+", default=["auto"], help="whose stems BM25 compares: auto, none, en, ..."
    )
    parser.add_argument("--corpus")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--kinds", nargs="+", default=list(get_args(IndexKind)))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    print(json.dumps(Environment.here().model_dump(mode="json")))
    given.out.mkdir(parents=True, exist_ok=True)
    if given.what == "quality":
        quality(given.data, given.models, given.texts, given.languages, given.out)
    elif given.what == "words":
        words(given.corpus, given.sentences, given.models[0], given.out)
    else:
        speed(given.corpus, given.sentences, given.models[0], given.kinds, given.out)


def quality(data: Path, models: Sequence[str], texts: Sequence[str], languages: Sequence[str], out: Path) -> None:
    """nDCG@10 of vectors, words and both."""
    told = f"{'vectors':>8} {'BM25':>8} {'both':>8}"
    print(f"{'data set':12} {'model':24} {'texts':9} {'language':9} {'rows':>7} {told}")
    for name, task in load_retrieval(data).tasks.items():
        for model in models:
            encoder = SentenceEncoder.load(model)
            for cut, language in product((kind == "passages" for kind in texts), languages):
                folder = out / f"{name}-{Path(model).name}-{'cut' if cut else 'whole'}-{language}"
                with opened(folder, task, encoder, model, BuildSettings(cut=cut, language=language)) as index:
                    vectors = index.search(task.queries, DEPTH + 1)
                    both = index.search(task.queries, DEPTH + 1, hybrid=True)
                    with index.snapshot() as snapshot:
                        ids = snapshot.document_ids()
                        ranked = [
                            [ids[number] for number in best_rows(snapshot.keywords.scores(query), 10 * DEPTH)]
                            for query in task.queries
                        ]
                    scores = [
                        score(task, [[hit.id for hit in hits] for hits in vectors]),
                        score(task, ranked),
                        score(task, [[hit.id for hit in hits] for hits in both]),
                    ]
                    told = " ".join(f"{value:8.2f}" for value in scores)
                    print(f"{name:12} {Path(model).name:24} {'passages' if cut else 'whole':9} {language:9} "
                          f"{len(index):7,} {told}", flush=True)  # fmt: skip


def opened(folder: Path, task: RetrievalTask, encoder: SentenceEncoder, model: str, how: BuildSettings) -> Index:
    """The index of a data set's documents; empty documents cannot be found and are left out."""
    try:
        return Index.open(folder, encoder=encoder)
    except UserError:
        rows = [
            IndexRow(text, key) for key, text in zip(task.document_ids, task.documents, strict=True) if text.strip()
        ]
        return Index.build(folder, rows, encoder, how=how, model=model, overwrite=True, progress=Terminal())


def score(task: RetrievalTask, lists: Sequence[Sequence[str]]) -> float:
    """Mean nDCG@10 x 100; a document with the query's own id is left out, as BEIR does."""
    place = {key: number for number, key in enumerate(task.document_ids)}
    values = []
    for own, judged, found in zip(task.query_ids, task.judged, lists, strict=True):
        levels = [judged.get(place[key], 0) for key in found if key != own][:DEPTH]
        values.append(ndcg(levels, list(judged.values()), DEPTH))
    return 100 * statistics.fmean(values)


def speed(corpus: str, sentences: int, model: str, kinds: Sequence[IndexKind], out: Path) -> None:
    """Recall and time of each kind; the first and the second call of nearest."""
    texts = [texts[0] for _, texts in islice(Source(corpus).examples(), sentences + 200)]
    asked, texts = texts[:200], texts[200:]
    encoder = SentenceEncoder.load(model)
    queries = encoder.encode(asked, normalize_embeddings=True)
    for kind in kinds:
        shutil.rmtree(out / kind, ignore_errors=True)
        began = time.perf_counter()
        index = Index.build(out / kind, texts, encoder, how=BuildSettings(kind=kind, cut=False), model=model)
        built = time.perf_counter() - began
        with index:
            index.search(queries[:1], 10)
            began = time.perf_counter()
            for number in range(ALONE):
                index.search(queries[number : number + 1], 10)
            each = (time.perf_counter() - began) / ALONE
            began = time.perf_counter()
            index.search(queries, 10)
            together = time.perf_counter() - began
            recall = index.measure_recall()
            print(
                f"{kind}: {len(index):,} rows, built in {built:.1f} s; a query {1000 * each:.1f} ms, {len(queries)} "
                f"together {1000 * together:.0f} ms; {recall.line()}",
                flush=True,
            )
    file = out / "corpus.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    shutil.rmtree(out / "corpus.txt.index", ignore_errors=True)
    program = "import sys; sys.argv[0] = 'opencse'; from opencse.cli import main; main()"
    command = [sys.executable, "-c", program, "nearest", model, "--corpus", str(file), "--query", asked[0]]
    for call, more in (("first", []), ("second", []), ("third", []), ("uncached", ["--no-cache"])):
        began = time.perf_counter()
        subprocess.run([*command, *more], check=True, capture_output=True)
        print(f"nearest over {len(texts):,} sentences, {call} call: {time.perf_counter() - began:.1f} s", flush=True)


def words(corpus: str, sentences: int, model: str, out: Path) -> None:
    """The first hybrid query of a process, where words are counted and where they were kept."""
    texts = [texts[0] for _, texts in islice(Source(corpus).examples(), sentences)]
    encoder = SentenceEncoder.load(model)
    shutil.rmtree(out / "words", ignore_errors=True)
    Index.build(out / "words", texts, encoder, how=BuildSettings(cut=False), model=model).close()
    counted: list[float] = []
    kept: list[float] = []
    for _ in range(ROUNDS):
        for path in (out / "words").glob("words-*"):
            shutil.rmtree(path)
        for times in (counted, kept):
            with Index.open(out / "words", encoder=encoder) as index:
                index.search(texts[:1], DEPTH)
                began = time.perf_counter()
                index.search(texts[:1], DEPTH, hybrid=True)
                times.append(time.perf_counter() - began)
    size = sum(path.stat().st_size for path in (out / "words").glob("words-*/*")) / 1e6
    print(
        f"{len(texts):,} texts: the first hybrid query takes {statistics.median(counted):.2f} s where words are "
        f"counted and kept ({size:.0f} MB), {statistics.median(kept):.3f} s where they are read (medians of {ROUNDS}, "
        "alternating)"
    )


if __name__ == "__main__":
    main()
