"""How much of a text training reads, and which rows it leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.job import TrainJob
from opencse.runs.opened import longest_text, near_duplicates
from opencse.text.given import GivenTexts, open_texts


@pytest.mark.parametrize(("reads", "longest"), [(16, 16), (256, 256), (400, 256)])
def test_auto_is_what_the_model_reads_up_to_a_bound(encoder: SentenceEncoder, reads: int, longest: int) -> None:
    encoder.max_length = reads
    assert longest_text(encoder, load_recipe("simcse", overrides=["data.max_length=auto"]), "M") == longest


def test_what_is_beyond_the_model_is_refused(encoder: SentenceEncoder) -> None:
    encoder.max_length = 40
    assert longest_text(encoder, load_recipe("simcse", overrides=["data.max_length=40"]), "M") == 40
    with pytest.raises(UserError, match=r"data\.max_length 41 is more than M reads \(40 ids\).*data\.max_length=40"):
        longest_text(encoder, load_recipe("simcse", overrides=["data.max_length=41"]), "M")


def test_a_batch_too_small_for_it_is_refused(encoder: SentenceEncoder) -> None:
    encoder.max_length = 40
    recipe = load_recipe("pretrain", overrides=["data.max_length=auto", "training.batch_tokens=39"])
    with pytest.raises(UserError, match=r"batch_tokens 39 cannot hold a text of 40 ids"):
        longest_text(encoder, recipe, "M")


def test_a_run_cuts_its_texts_there(tiny_folder: Path, tmp_path: Path) -> None:
    rows = [(f"a question about number {n}", "many words of an answer " * 40) for n in range(12)]
    settings = ("data.max_length=auto", "training.batch_size=4", "training.precision=float32")
    job = TrainJob(text=open_texts(rows), recipe="adapt", model=str(tiny_folder), settings=settings, dev=None)
    plan = job.prepare(Silent()).plan
    assert plan.corpus.max_length == min(256, SentenceEncoder.load(tiny_folder, device="cpu").max_length)
    assert plan.corpus.at_limit == 12


def test_near_duplicates_are_looked_for_only_where_the_recipe_says_so() -> None:
    rows = tuple((f"Sentence number {n} is short.",) for n in range(12))
    text = GivenTexts((*rows, rows[0]))
    assert near_duplicates(text, load_recipe("simcse"), Silent()) is None
    pytest.importorskip("rensa")
    near = near_duplicates(text, load_recipe("simcse", overrides=["data.near_duplicates=0.99"]), Silent())
    assert near is not None
    assert np.flatnonzero(near).tolist() == [12]
