"""Every command reads queries, documents and other texts with the prompts that sentence-transformers would use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opencse
from helpers import Heard, write_collection, write_lines, write_small_sts
from opencse import SentenceEncoder
from opencse.export.distil import DistilSettings
from opencse.search.negatives import Mining
from prompted import BGE, INSTRUCTION, Read, prompts_in, write_prompted

# What sentence-transformers puts before plain texts, queries and documents; test_prompts.py of the encoder compares.
BEFORE = {
    "none": ("", "", ""),
    "e5": ("", "query: ", "passage: "),
    "e5-default-query": ("query: ", "query: ", "passage: "),
    "bge": ("", BGE, ""),
    "instruction-default": (INSTRUCTION, INSTRUCTION, ""),
    "default-alone": ("text: ", "", ""),
}
QUERIES = ["Which tool opens a jar?", "Where does the river end?"]
DOCUMENTS = ["A wrench turns the lid of the jar.", "The river flows into the cold sea.", "Bread is baked at night."]
OTHERS = ["A man plays a guitar.", "Somebody plays music."]
Texts = tuple[list[str], list[str], list[str]]
"""Of a command: the plain texts, the queries and the documents that it reads."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each layout."""
    there = tmp_path_factory.mktemp("models")
    return {layout: write_prompted(there / layout, layout) for layout in BEFORE}


def written(folder: Path, name: str, lines: list[str]) -> Path:
    write_lines(folder / name, lines)
    return folder / name


def retrieval(folder: Path) -> Path:
    """A data set in BEIR's layout."""
    data, judged = folder / "retrieval" / "tools", [("q0", "d0", 1), ("q1", "d1", 1)]
    for split in ("test", "dev"):
        documents, queries = (
            {f"{k}{n}": text for n, text in enumerate(t)} for k, t in (("d", DOCUMENTS), ("q", QUERIES))
        )
        write_collection(data, documents, queries, judged, split)
    return data


def encode_array(model: Path, _: Path) -> Texts:
    opencse.encode(model, OTHERS, device="cpu")
    return OTHERS, [], []


def encode_queries(model: Path, _: Path) -> Texts:
    opencse.encode(model, QUERIES, prompt_name="query", device="cpu")
    return [], QUERIES, []


def encode_folder(model: Path, there: Path) -> Texts:
    opencse.encode(model, written(there, "t.txt", DOCUMENTS), there / "t", prompt_name="document", device="cpu")
    return [], [], DOCUMENTS


def similarity(model: Path, _: Path) -> Texts:
    opencse.similarity(model, OTHERS[0], OTHERS[1:], device="cpu")
    return OTHERS, [], []


def nearest(model: Path, _: Path) -> Texts:
    opencse.nearest(model, DOCUMENTS, QUERIES, device="cpu")
    return [], QUERIES, DOCUMENTS


def index(model: Path, there: Path) -> Texts:
    opencse.build_index(there / "ix", model, DOCUMENTS[:2], device="cpu")
    opencse.add_to_index(there / "ix", DOCUMENTS[2:], device="cpu")
    opencse.query_index(there / "ix", QUERIES, device="cpu")
    return [], QUERIES, DOCUMENTS


def index_negatives(model: Path, there: Path) -> Texts:
    opencse.build_index(there / "ix", model, DOCUMENTS, device="cpu")
    pairs = list(zip(QUERIES, DOCUMENTS[:2], strict=True))
    how = Mining(ceiling=100, same=None)
    opencse.index_negatives(there / "ix", pairs, there / "triples.jsonl", how=how, device="cpu")
    return [], QUERIES, DOCUMENTS


def evaluate_retrieval(model: Path, there: Path) -> Texts:
    opencse.evaluate(str(model), retrieval(there).parent, "retrieval", device="cpu")
    return [], QUERIES, DOCUMENTS


def evaluate_a_layer(model: Path, there: Path) -> Texts:
    list(opencse.evaluate_all([str(model)], retrieval(there).parent, ["retrieval"], layers=[1, 3], device="cpu"))
    return [], QUERIES, DOCUMENTS


def evaluate_sts(model: Path, there: Path) -> Texts:
    sts = write_small_sts(there / "sts")
    opencse.evaluate(str(model), sts, "sts", device="cpu")
    first = next(sts.rglob("*.tsv")).read_text(encoding="utf-8").splitlines()[0]
    return first.split("\t")[1:3], [], []


def train_pairs(model: Path, there: Path) -> Texts:
    rows = [(QUERIES[0], DOCUMENTS[0], DOCUMENTS[2]), (QUERIES[1], DOCUMENTS[1], DOCUMENTS[2])]
    how = ["training.max_steps=1", "training.batch_size=2", "encoder.pooling=mean"]
    opencse.train(rows, there / "run", recipe="simcse-supervised", model=model, dev=None, settings=how, device="cpu")
    assert prompts_in(there / "run") == prompts_in(model)
    plain = prompts_in(model)["prompts"].keys() <= {"sts"}
    return ([*QUERIES, *DOCUMENTS], [], []) if plain else ([], QUERIES, DOCUMENTS)


def adapt(model: Path, there: Path) -> Texts:
    bodies = [
        f"{text} Of {number} kinds {number // 2} are known, and nobody has counted the rest."
        for number in range(40)
        for text in OTHERS
    ]
    documents = [(f"Title {number}", body) for number, body in enumerate(bodies)]
    how = ["training.max_steps=2", "training.evaluate_every=1", "training.batch_size=4"]
    result = opencse.adapt(documents, there / "run", model=model, dev=retrieval(there), settings=how, device="cpu")
    assert prompts_in(result.folder) == prompts_in(model)
    return [], QUERIES, DOCUMENTS


COMMANDS: list[Callable[[Path, Path], Texts]] = [
    encode_array, encode_queries, encode_folder, similarity, nearest, index, index_negatives, evaluate_retrieval,
    evaluate_a_layer, evaluate_sts,
]  # fmt: skip
PAIRS = [
    (command, layout) for n, command in enumerate(COMMANDS) for layout in (list(BEFORE) * 2)[n % 6 : n % 6 + 4 : 2]
]
SLOW = [(train_pairs, "e5-default-query"), (train_pairs, "default-alone"), (adapt, "e5-default-query")]


def saved(model: Path, there: Path) -> Path:
    SentenceEncoder.load(model, device="cpu").save(there / "saved")
    return there / "saved"


def whitened(model: Path, there: Path) -> Path:
    texts = [f"{text} {number}" for text in (*DOCUMENTS, *OTHERS) for number in range(20)]
    opencse.whiten(model, texts, there / "white", dimension=8, device="cpu")
    return there / "white"


def distilled(model: Path, there: Path) -> Path:
    opencse.export_static(model, there / "table", settings=DistilSettings(dimension=16), device="cpu")
    return there / "table"


def trained_with_adapters(model: Path, there: Path) -> Path:
    how = ["training.max_steps=1", "training.batch_size=2", "encoder.pooling=mean", "encoder.lora.rank=2"]
    opencse.train(DOCUMENTS, there / "run", model=model, dev=None, settings=how, device="cpu")
    heard = Heard()
    opencse.merge(there / "run" / "adapter", there / "merged", progress=heard)
    assert heard.said == [f"merged     {there / 'run' / 'adapter'} with {model}"]
    assert prompts_in(there / "run") == prompts_in(model)
    return there / "merged"


@pytest.mark.slow
@pytest.mark.parametrize("write", [saved, whitened, distilled, trained_with_adapters], ids=lambda write: write.__name__)
def test_every_folder_that_is_written_keeps_the_prompts(
    write: Callable[[Path, Path], Path], models: dict[str, Path], tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    model = models["e5-default-query"]
    folder = write(model, tmp_path)
    assert prompts_in(folder) == prompts_in(model)
    ours, theirs = SentenceEncoder.load(folder, device="cpu"), SentenceTransformer(str(folder), device="cpu")
    for given, expected in (
        (ours.encode(OTHERS), theirs.encode(OTHERS)),
        (ours.encode_query(QUERIES), theirs.encode_query(QUERIES)),
        (ours.encode_document(DOCUMENTS), theirs.encode_document(DOCUMENTS)),
    ):
        assert np.abs(given - expected).max() < 1e-5
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "encode_query" in card


def check(command: Callable[[Path, Path], Texts], layout: str, models: dict[str, Path], there: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        read = Read(patch)
        groups = command(models[layout], there)
    for prompt, texts in zip(BEFORE[layout], groups, strict=True):
        for text in texts:
            # Some texts are also read without a prompt, to tell their language or to count their words.
            assert read.before(text) - {""} == {prompt} - {""}, text
            assert read.before(text), text


@pytest.mark.parametrize(
    ("command", "layout"), [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW)]
)
def test_the_prompt_before_each_text(
    command: Callable[[Path, Path], Texts], layout: str, models: dict[str, Path], tmp_path: Path
) -> None:
    check(command, layout, models, tmp_path)
