"""A change of the anchor and another one of the positive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.sides.clean import CleanSides
from opencse.objective.vectors.requests import Clean
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.both_sides import BothSides, SideChange
from opencse.text.tokenizer import TokenisedText

N = 5


def view(anchor: SideChange, positive: SideChange, rate: float = 0.3) -> BothSides:
    return BothSides(BothSides.Settings(anchor=anchor, positive=positive, rate=rate))


def embeddings() -> torch.Tensor:
    return torch.randn(200, 20, 32, generator=torch.Generator().manual_seed(2)) + 3.0


def test_feature_cutoff_drops_a_share_of_the_dimensions_of_each_text() -> None:
    words = embeddings()
    changed = view("none", "feature_cutoff").disturb(words, torch.Generator().manual_seed(0))
    dropped = (changed == 0).all(dim=1)
    assert torch.equal((changed == 0), dropped.unsqueeze(1).expand_as(changed)), "in all tokens"
    assert (dropped.sum(dim=1) == int(0.3 * 32)).all()
    assert dropped.float().mean(dim=0).std() < 0.1, "any dimension"
    assert len({tuple(row) for row in dropped.tolist()}) == 200, "other ones in each text"
    assert torch.equal(changed[changed != 0], words[changed != 0])


def test_token_cutoff_drops_tokens() -> None:
    words = embeddings()
    changed = view("token_cutoff", "none").disturb_anchors(words, torch.Generator().manual_seed(0))
    dropped = (changed == 0).all(dim=2)
    assert torch.equal((changed == 0), dropped.unsqueeze(2).expand_as(changed))
    assert float(dropped.float().mean()) == pytest.approx(0.3, abs=0.03)


def test_shuffled_tokens_are_the_same_tokens_between_the_special_ones() -> None:
    ids = np.arange(10, 22, dtype=np.int32)
    text = TokenisedText(ids, np.array([-1, *range(10), -1], dtype=np.int32))
    orders = set()
    for seed in range(20):
        (shuffled,) = view("none", "shuffle").positives([text], np.random.default_rng(seed))
        assert (shuffled[0], shuffled[-1]) == (10, 21)
        assert sorted(shuffled) == ids.tolist()
        assert shuffled.dtype == ids.dtype
        orders.add(tuple(shuffled.tolist()))
    assert len(orders) == 20
    assert ids.tolist() == list(range(10, 22)), "the corpus is not changed"
    (plain,) = view("none", "shuffle").changed_anchors([text], np.random.default_rng(0))
    assert plain is ids


@pytest.mark.parametrize(("rate", "length"), [(0.3, 8), (0.0, 12), (0.95, 1)])
def test_a_span_of_the_tokens_stays_and_the_others_are_padding(
    rate: float, length: int, encoder: SentenceEncoder
) -> None:
    ids = np.arange(10, 22, dtype=np.int32)
    texts = [TokenisedText(ids, np.array([-1, *range(10), -1], dtype=np.int32))] * 60
    changes = view("none", "span", rate)
    with pytest.raises(RuntimeError, match="not begun"):
        changes.positives(texts, np.random.default_rng(0))
    changes.begin(encoder, batch_size=N, seed=0)
    padding, starts = encoder.tokenizer.hf.pad_token_id, set()
    for one in changes.positives(texts, np.random.default_rng(0)):
        (places,) = np.nonzero(one != padding)
        assert places.tolist() == list(range(places[0], places[0] + length))
        assert one[places].tolist() == ids[places].tolist()
        assert one.dtype == ids.dtype
        starts.add(int(places[0]))
    assert starts == set(range(12 - length + 1)), "every place that it fits in"
    assert changes.changed_anchors(texts, np.random.default_rng(0))[0] is ids


def test_a_span_of_a_text_in_a_template_is_refused(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, template='"{text}" is {mask}.', pooling="mask", device="cpu")
    objective = Objective(view("none", "span", 0.3), negatives=[InBatch()])
    with pytest.raises(UserError, match="view both_sides: a span would leave out the encoder's template"):
        objective.check(Context(objective, encoder))
    for anchor, positive in (("token_cutoff", "shuffle"), ("none", "feature_cutoff")):
        allowed = Objective(view(anchor, positive), negatives=[InBatch()])  # type: ignore[arg-type]
        allowed.check(Context(allowed, encoder))


@pytest.mark.parametrize("side", ["anchor", "positive"])
@pytest.mark.parametrize("change", ["token_cutoff", "feature_cutoff"])
def test_each_side_has_its_own_change(
    change: SideChange, side: str, encoder: SentenceEncoder, sentences: list[str]
) -> None:
    encoder.eval()
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:N] * 2))
    inputs = StepInputs(tokens, N, torch.arange(N).unsqueeze(1).repeat(1, 2), noise_seed=5)

    def vectors(anchor: SideChange, positive: SideChange) -> dict[str, torch.Tensor]:
        reps = Objective(view(anchor, positive), negatives=[InBatch()]).represent(encoder, inputs)
        return {"anchor": reps.anchor, "positive": reps.positive}

    plain = vectors("none", "none")
    changed = vectors(change, "none") if side == "anchor" else vectors("none", change)
    other = "positive" if side == "anchor" else "anchor"
    assert torch.equal(changed[other], plain[other])
    assert ((changed[side] - plain[side]).abs().amax(dim=1) > 1e-4).all()


def test_vectors_without_dropout_are_of_inputs_as_they_are(tiny_folder: Path, sentences: list[str]) -> None:
    encoder = SentenceEncoder.load(tiny_folder, dropout=0.0, device="cpu").train()
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:N] * 2))
    inputs = StepInputs(tokens, N, torch.arange(N).unsqueeze(1).repeat(1, 2), noise_seed=5)
    reps = Objective(view("feature_cutoff", "none"), negatives=[InBatch()], terms=[]).represent(encoder, inputs)
    clean = InBatch(InBatch.Settings(of=CleanSides.Settings()))
    both = Objective(view("feature_cutoff", "none"), negatives=[clean]).represent(encoder, inputs)
    torch.testing.assert_close(both[Clean()], encoder(tokens.rows(0, N)).vectors)
    assert (reps.anchor - both[Clean()]).abs().max() > 1e-3, "the anchors' own inputs are changed"
