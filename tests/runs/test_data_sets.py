"""Which texts and objectives the further data sets of a run have, and when a run with them may be resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Stopped
from opencse.errors import InterruptedRunError, UserError
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.run import Run
from opencse.runs.setup import texts_of, with_given_sets
from opencse.text.given import LabelledTexts, open_texts

SENTENCES = open_texts(["One is here.", "Two are there."])


def test_further_texts_have_the_objective_of_their_recipe_or_that_of_the_run() -> None:
    pairs = open_texts([("a", "b", 1.0), ("c", "d", 0.0)], labels=True)
    given = [(SENTENCES, "simcse"), (pairs, "cosent"), (SENTENCES, None)]
    recipe, texts = with_given_sets(load_recipe("simcse"), given)
    made = texts_of(recipe, SENTENCES, texts)[1:]
    assert [one.objective.view.kind for one in made] == ["dropout", "pair", "dropout"]
    assert len({one.settings.name for one in made}) == 3
    assert with_given_sets(load_recipe("simcse"), [])[0].datasets is None


def test_a_text_named_in_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "sts.tsv").write_text("4\tA cat.\tA kitten.\n0\tRain.\tA train.\n")
    objective = '{view={kind="pair"}, negatives=[], terms=[{kind="cosent"}]}'
    sets = f'datasets=[{{name="graded", data="{tmp_path}/sts.tsv", scale=5, objective={objective}}}]'
    recipe, texts = with_given_sets(load_recipe("simcse", overrides=[sets]), [])
    _, one = texts_of(recipe, SENTENCES, texts)
    assert isinstance(one.text, LabelledTexts)
    assert one.text.row_labels().values.tolist() == [0.8, 0.0]


@pytest.mark.parametrize(
    ("recipe", "settings", "given", "message"),
    [
        ("simcse-joint", (), [], r"further data \(sentences\), and no text is given for it; add --also FILE"),
        (
            "simcse",
            (),
            [(SENTENCES, "cosent")],
            "data set 2 given sentences: text: the recipe learns from the score",
        ),
        ("pretrain", (), [(SENTENCES, None)], r"training\.batch_tokens does not go with several data sets"),
        ("simcse", ('datasets=[{name="text"}]',), [], r"the name 'text' \(the first data set's\) is used twice"),
        ("simcse", ("mixing=round_robin", 'datasets=[{name="a", weight=2}]'), [], "a has a weight, and in turns"),
    ],
)
def test_what_cannot_be_mixed(recipe: str, settings: tuple[str, ...], given: list[object], message: str) -> None:
    def opened() -> None:
        made, texts = with_given_sets(load_recipe(recipe, overrides=settings), given)  # type: ignore[arg-type]
        texts_of(made, SENTENCES, texts)

    with pytest.raises(UserError, match=message) as caught:
        opened()
    assert "\n" not in str(caught.value)


SETTINGS = ("training.max_steps=6", "training.epochs=9", "training.batch_size=4", "training.precision=float32")


def job(model: Path, first: Path, second: Path, *settings: str) -> Run:
    named = f'datasets=[{{name="more", data="{second}"}}]'
    text = open_texts(str(first))
    return Run(text=text, model=str(model), settings=(*SETTINGS, named, *settings), dev=None)


@pytest.mark.slow
def test_a_moved_file_is_the_same_run_and_another_text_is_not(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    first, second, moved = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.txt"
    first.write_text("\n".join(sentences[:12]))
    for path in (second, moved):
        path.write_text("\n".join(sentences[20:32]))
    with pytest.raises(InterruptedRunError):
        job(tiny_folder, first, second).train(tmp_path / "run", progress=Stopped(3))
    second.write_text("\n".join(sentences[40:52]))
    with pytest.raises(UserError, match="another text"):
        job(tiny_folder, first, second).train(tmp_path / "run", resume=True)
    with pytest.raises(UserError, match=r"another recipe\.mixing"):
        job(tiny_folder, first, moved, "mixing=round_robin").train(tmp_path / "run", resume=True)
    result = job(tiny_folder, first, moved).train(tmp_path / "run", resume=True)
    assert result.verdict.startswith("no dev data")
    plain = Run(text=open_texts(str(first)), model=str(tiny_folder), settings=SETTINGS, dev=None)
    assert plain.open(Silent()).identity().recipe["datasets"] is None
