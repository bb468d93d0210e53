"""What a start keeps of itself, and starts that a run writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import Run, refused
from opencse import train
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.run import Run as TrainRun
from opencse.runs.start import Start, weigh_tokens
from opencse.text import sample
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from opencse.training.evaluations import probes_of, require_sound
from opencse.training.selection import DevScore, GradedPairSelector

TEXT = Source(str(sample.TRAIN))


QUICK = ("training.max_steps=2", "training.batch_size=8", "training.evaluate_every=1", "training.precision=float32")


@pytest.fixture(scope="module")
def foreign(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as sentence-transformers has them: mean pooling, a Dense layer, Normalize."""
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    encoder.dense.append(Dense.linear_head(32, torch.Generator().manual_seed(1), 32))
    encoder.normalize = True
    folder = tmp_path_factory.mktemp("foreign")
    encoder.save(folder)
    return folder


@pytest.fixture(scope="module")
def layerless(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Word vectors alone, as `opencse static` makes them."""
    folder = tmp_path_factory.mktemp("layerless")
    SentenceEncoder.load(tiny_folder, pooling="mean", layers=0, device="cpu").save(folder)
    return folder


def taken(model: Path, recipe: str = "simcse", *settings: str) -> tuple[str, str, bool]:
    """Pooling, kind of head, and whether it is kept."""
    encoder = TrainRun(text=TEXT, recipe=recipe, model=str(model), settings=settings).start.recipe.encoder
    return str(encoder.pooling), encoder.head.kind, encoder.head.keep


class TestSettle:
    def test_a_plain_backbone_takes_the_recipes(self, tiny_folder: Path) -> None:
        assert taken(tiny_folder) == ("cls", "mlp", False)
        assert taken(tiny_folder, "simcse-supervised") == ("cls", "mlp", True)
        assert taken(tiny_folder, "simcse", "encoder.pooling=own") == ("mean", "mlp", False)
        assert TrainRun(text=TEXT, recipe="simcse", model=str(tiny_folder)).start.reason == ""

    @pytest.mark.parametrize("recipe", ["simcse-supervised", "sscl"])
    def test_a_model_with_its_own_pooling_keeps_it_and_gets_no_head(self, recipe: str, foreign: Path) -> None:
        assert taken(foreign, recipe) == ("mean", "none", False)
        assert taken(foreign, recipe, "encoder.pooling=own") == ("mean", "none", False)

    def test_who_sets_the_pooling_gets_the_method(self, foreign: Path) -> None:
        assert taken(foreign, "simcse", "encoder.pooling=cls") == ("cls", "mlp", False)
        assert taken(foreign, "simcse-supervised", "encoder.pooling=cls") == ("cls", "mlp", True)
        assert taken(foreign, "simcse", 'encoder={ pooling = "cls" }') == ("cls", "none", False)
        assert taken(foreign, "simcse:first-last") == ("first_last_0", "none", False)

    def test_a_head_of_training_is_used_where_both_pool_alike(self, tiny_folder: Path, tmp_path: Path) -> None:
        SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu").save(tmp_path)
        assert taken(tmp_path) == ("cls", "mlp", False)
        assert taken(tmp_path, "simcse-supervised") == ("cls", "none", False)
        assert (
            "--set encoder.head.kind=mlp to force it"
            in TrainRun(text=TEXT, recipe="simcse-supervised", model=str(tmp_path)).start.reason
        )


@pytest.mark.slow
def test_training_a_foreign_model_leaves_its_modules_as_they_are(foreign: Path, tmp_path: Path) -> None:
    result = TrainRun(text=TEXT, recipe="simcse", model=str(foreign), preset=None, settings=QUICK).train(
        tmp_path / "run"
    )
    for folder in (result.folder, result.folder / "last"):
        for name in ("modules.json", "1_Pooling/config.json", "2_Dense/config.json"):
            assert (folder / name).read_text() == (foreign / name).read_text(), name


@pytest.mark.slow
def test_the_better_reading_is_what_is_kept(foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opencse.training.selection import DevScore, GradedPairSelector

    monkeypatch.setattr(
        GradedPairSelector, "score", lambda self, encoder: DevScore(80.0 if encoder.pooling is Pooling.MEAN else 50.0)
    )
    job = TrainRun(
        text=TEXT,
        recipe="simcse",
        model=str(foreign),
        preset=None,
        settings=(*QUICK, "encoder.pooling=cls"),
        dev="sample",
    )
    result = job.train(tmp_path / "run")
    assert result.scores[0] == 50.0
    assert result.kept == "given"
    texts = ["A dog runs.", "Rain fell."]
    kept, given, last = (
        SentenceEncoder.load(f, device="cpu") for f in (result.folder, foreign, result.folder / "last")
    )
    assert np.array_equal(kept.encode(texts), given.encode(texts))
    assert (kept.pooling, last.pooling) == (Pooling.MEAN, Pooling.CLS)


class TestNothingRuined:
    @pytest.mark.slow
    def test_cls_over_word_vectors_is_refused_before_the_run(
        self, opencse: Run, layerless: Path, tmp_path: Path
    ) -> None:
        for more in ([], ["--dry-run"]):
            command = ["train", sample.TRAIN, "--model", layerless, "--out", tmp_path / "x"]
            result = opencse(*command, "--set", "encoder.pooling=cls", *more)
            refused(result, "without layers, pooling cls reads a special token", "--set encoder.pooling=mean")
        assert not (tmp_path / "x").exists()

    @pytest.mark.parametrize(("spoil", "what"), [(float("nan"), "NaN or infinite"), (0.0, "all zeros")])
    def test_useless_vectors_are_named(self, tiny_folder: Path, spoil: float, what: str) -> None:
        encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
        probes = probes_of(tokenise(TEXT, encoder.tokenizer, 32))
        assert len(probes) == 8
        assert len({tuple(ids) for ids in probes}) == 8
        require_sound(encoder, probes, "now", "mend")
        dense = Dense.linear_head(32, torch.Generator().manual_seed(0), 32)
        torch.nn.init.constant_(dense.linear.weight, spoil)
        encoder.dense.append(dense)
        with pytest.raises(UserError, match=f"^now: .*{what}.* \\(pooling mean\\); mend$"):
            require_sound(encoder, probes, "now", "mend")

    @pytest.mark.slow
    def test_a_run_that_ruins_the_encoder_saves_nothing(
        self, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from opencse.training.trainer import Trainer

        step = Trainer._make_step

        def spoiled(self: Trainer, number: int) -> object:
            outcome = step(self, number)
            with torch.no_grad():
                next(self.encoder.parameters()).fill_(float("nan"))
            return outcome

        monkeypatch.setattr(Trainer, "_make_step", spoiled)
        job = TrainRun(text=TEXT, recipe="simcse", model=str(tiny_folder), preset=None, settings=QUICK, dev=None)
        with pytest.raises(UserError, match=r"^step 1: training ruined the encoder: .*lower training\.learning_rate"):
            job.train(tmp_path / "run")
        assert not list((tmp_path / "run").rglob("*.safetensors"))


def test_frozen_embeddings_stay_and_layers_move(tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    (tmp_path / "text.txt").write_text("\n".join(sentences[:16]))
    settings = ("encoder.freeze_embeddings=true", "training.max_steps=2", "training.batch_size=8", "data.max_length=16")
    job = TrainRun(
        text=Source(str(tmp_path / "text.txt")), recipe="simcse", model=str(tiny_folder), settings=settings, dev=None
    )
    made = job.open(Silent())
    assert any(not weights.requires_grad for weights in made.encoder.parameters())
    start = Start(str(tiny_folder), load_recipe("simcse"), device="cpu").for_training()
    job.train(tmp_path / "out")
    trained = Start(str(tmp_path / "out"), load_recipe("simcse"), device="cpu").for_training()
    moved = {
        name: not torch.equal(weights, dict(trained.backbone.named_parameters())[name])
        for name, weights in start.backbone.named_parameters()
    }
    assert {name.startswith("embeddings.") for name, has_moved in moved.items() if not has_moved} == {True}
    assert all(not has_moved for name, has_moved in moved.items() if name.startswith("embeddings."))


LAYER = "encoder.layer.0.output.dense.weight"


IDF = "encoder.token_weights=idf"


WEIGHED = (IDF, "training.max_steps=4", "training.evaluate_every=2", "training.checkpoint_every=2",
         "training.batch_size=8", "training.precision=float32")  # fmt: skip


@pytest.fixture
def own_start(encoder: SentenceEncoder, tmp_path: Path) -> Path:
    """A start with a pooling of its own, mean."""
    encoder.save(tmp_path / "start")
    return tmp_path / "start"


@pytest.mark.parametrize("best", ["start", "weights", "trained"])
def test_the_folder_holds_the_best_candidate_and_the_verdict_names_it(
    own_start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: str
) -> None:
    """A start that is kept has exactly the vectors of the model that was given."""
    given = SentenceEncoder.load(own_start)
    texts = ["A dog runs in the snow.", "Rain fell."]

    def score(selector: GradedPairSelector, encoder: SentenceEncoder) -> DevScore:
        del selector
        trained = not torch.equal(encoder.backbone.state_dict()[LAYER], given.backbone.state_dict()[LAYER])
        kind = "trained" if trained else "start" if encoder.token_weights is None else "weights"
        return DevScore(80.0 if kind == best else 50.0)

    monkeypatch.setattr(GradedPairSelector, "score", score)
    monkeypatch.setattr(
        GradedPairSelector, "worse", lambda selector, trained, own_start: trained.value < own_start.value
    )
    result = train(sample.TRAIN, tmp_path / "out", model=str(own_start), settings=WEIGHED, dev="sample")
    kept, last = (SentenceEncoder.load(folder) for folder in (tmp_path / "out", tmp_path / "out" / "last"))
    assert (result.kept == "start") == (best == "start")
    assert (kept.token_weights is None) == (best == "start")
    assert last.token_weights is not None, "what was trained had them"
    assert np.array_equal(kept.encode(texts), given.encode(texts)) == (best == "start")
    expected = {
        "start": "the start is kept unchanged",
        "weights": "the untrained start with token weights is kept",
    }
    assert expected.get(best, "the best model is kept") in result.verdict
    same = torch.equal(kept.backbone.state_dict()[LAYER], given.backbone.state_dict()[LAYER])
    assert same == (best != "trained")


@pytest.mark.parametrize(("pooling", "layers", "why"), [("cls", None, "is no mean"), ("mean", 0, "no layers")])
def test_who_takes_no_weights(tiny_folder: Path, pooling: str, layers: int | None, why: str) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling=pooling, layers=layers)
    assert weigh_tokens(encoder, [np.array([1, 2])], explicit=False) is None
    with pytest.raises(UserError, match=f"token_weights: this encoder has .*{why}.*; leave the setting out"):
        weigh_tokens(encoder, [np.array([1, 2])], explicit=True)
