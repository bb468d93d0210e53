"""The head with batch normalisation: its formula, its running means, and all rows of a batch at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from helpers import Broken, write_tiny_bert
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import InterruptedRunError, UserError
from opencse.modules.dense import Dense, HeadSettings, Projection, as_saved, new_head
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source
from steps import prepared


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normalised(rows: list[list[Tensor]], scale: Tensor | None, shift: Tensor | None) -> list[list[Tensor]]:
    """Batch normalisation by loops."""
    n = len(rows)
    made: list[list[Tensor]] = [[] for _ in rows]
    for column in range(len(rows[0])):
        mean = sum((row[column] for row in rows), torch.zeros(())) / n
        variance = sum(((row[column] - mean) ** 2 for row in rows), torch.zeros(())) / n
        for row, out in zip(rows, made, strict=True):
            value = (row[column] - mean) / (variance + 1e-5).sqrt()
            if scale is not None and shift is not None:
                value = value * scale[column] + shift[column]
            out.append(value)
    return made


def naive(head: Projection, vectors: Tensor) -> Tensor:
    def mapped(weight: Tensor, rows: list[list[Tensor]]) -> list[list[Tensor]]:
        return [[sum((w * x for w, x in zip(ws, row, strict=True)), torch.zeros(())) for ws in weight] for row in rows]

    inside = normalised(
        mapped(head.inner.weight, [list(row) for row in vectors]), head.inner_norm.weight, head.inner_norm.bias
    )
    inside = [[value.clamp(min=0) for value in row] for row in inside]
    return torch.stack([torch.stack(row) for row in normalised(mapped(head.outer.weight, inside), None, None)])


def test_values_and_gradients_are_those_of_loops() -> None:
    head = Projection(3, seeded(), size=4).double()
    with torch.no_grad():
        for number, affine in enumerate(head.inner_norm.parameters()):
            affine.uniform_(0.5 - number, 2 - number, generator=seeded(number))
    weights = torch.randn(5, 4, generator=seeded(4)).double()
    found = []
    for make in (head, lambda vectors: naive(head, vectors)):
        vectors = torch.randn(5, 3, generator=seeded(5)).double().requires_grad_()
        made = make(vectors)
        gradients = torch.autograd.grad((made * weights).sum(), [vectors, *head.parameters()])
        found.append([made.detach(), *gradients])
    assert len(found[0]) == 6
    assert all(one.abs().max() > 1e-6 for one in found[0])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_it_is_the_layers_of_torch_in_their_order() -> None:
    head = Projection(6, seeded())
    theirs = nn.Sequential(
        nn.Linear(6, 12, bias=False),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.Linear(12, 6, bias=False),
        nn.BatchNorm1d(6, affine=False),
    )
    theirs[0].load_state_dict(head.inner.state_dict())
    theirs[3].load_state_dict(head.outer.state_dict())
    for step in range(4):
        vectors = torch.randn(8, 6, generator=seeded(step))
        torch.testing.assert_close(head(vectors), theirs(vectors))
    for own, other in ((head.inner_norm, theirs[1]), (head.outer_norm, theirs[4])):
        counts = {name: tensor for name, tensor in other.state_dict().items() if name != "num_batches_tracked"}
        assert own.state_dict().keys() == counts.keys()
        assert all(torch.equal(own.state_dict()[name], tensor) for name, tensor in counts.items())
        assert own.running_mean.any()
    head.eval(), theirs.eval()
    vectors = torch.randn(3, 6, generator=seeded(9))
    torch.testing.assert_close(head(vectors), theirs(vectors))
    torch.testing.assert_close(
        nn.Sequential(*as_saved(nn.Sequential(head)))(vectors), head(vectors), atol=1e-5, rtol=1e-4
    )
    for weight in (head.inner.weight, head.outer.weight):
        assert float(weight.detach().std()) == pytest.approx(0.02, rel=0.3)


def test_a_look_without_gradient_leaves_the_running_means() -> None:
    head = Projection(4, seeded())
    vectors = torch.randn(5, 4, generator=seeded(1))
    with torch.no_grad():
        made = head(vectors)
    assert not head.inner_norm.running_mean.any()
    torch.testing.assert_close(made, head(vectors).detach())
    assert head.inner_norm.running_mean.any()


def test_a_batch_of_one_is_refused_and_an_inference_of_one_is_not() -> None:
    head = Projection(4, seeded())
    with pytest.raises(UserError, match=r"^the projection head normalises .* set training\.batch_size higher, or \S+$"):
        head(torch.ones(1, 4))
    assert head.eval()(torch.ones(1, 4)).shape == (1, 4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_it_normalises_in_float32_under_autocast(dtype: torch.dtype) -> None:
    head = Projection(8, seeded())
    vectors = 100 + torch.randn(16, 8, generator=seeded(1))
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        made = head(vectors).detach()
    assert made.dtype == torch.float32
    assert float(made.mean(dim=0).abs().max()) < 1e-4
    assert float((made.var(dim=0, unbiased=False) - 1).abs().max()) < 0.2


def test_settings() -> None:
    head = new_head(HeadSettings(kind="projection", size=5), 8, seeded())
    assert isinstance(head, Projection)
    assert (head.out_features, head(torch.eye(8)).shape) == (5, (8, 5))
    same = new_head(HeadSettings(kind="projection"), 8, seeded())
    assert same is not None
    assert same.out_features == 8


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("tiny"), sd=0.1)


@pytest.mark.parametrize("keep", [False, True])
def test_chunks_have_the_means_of_the_whole_batch(
    keep: bool, model: Path, tmp_path: Path, sentences: list[str]
) -> None:
    settings = f'encoder.head={{ kind = "projection", keep = {str(keep).lower()} }}'
    run = prepared("simcse", model, tmp_path, sentences, settings, "encoder.dropout=0.0")
    inputs = run.inputs.build(run.batches.batch(0), 0)
    found = []
    for chunks in (WHOLE, Chunks(3)):
        encoder = run.encoder.twin().train()
        reps = run.objective.represent(encoder, replace(inputs, chunks=chunks))
        found.append([reps.anchor.detach(), reps.positive.detach(), *(b.double() for b in encoder.buffers())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)
    both = torch.cat(found[0][:2])
    assert float(both.mean(dim=0).abs().max()) < 1e-10, "means of both views together"
    alone = run.encoder.twin().train()(inputs.tokens.rows(0, 3)).sentence
    assert (alone - found[0][0][:3]).abs().max() > 0.1, "a chunk's own means are others"


def test_vectors_without_dropout_have_the_means_of_their_batch(
    model: Path, tmp_path: Path, sentences: list[str]
) -> None:
    run = prepared("simcse", model, tmp_path, sentences, "encoder.head.kind=projection")
    inputs = run.inputs.build(run.batches.batch(0), 0)
    encoder = run.encoder.train()
    with encoder.without_dropout():
        first, again = (encoder(inputs.anchors).sentence for _ in range(2))
        assert encoder.projection is not None
        assert encoder.projection.training
        assert not encoder.backbone.training
    assert torch.equal(first, again)
    assert float(first.detach().mean(dim=0).abs().max()) < 1e-10


SETTINGS = (
    "encoder.head={ kind = 'projection', keep = true }",
    "training.max_steps=6",
    "training.batch_size=8",
    "training.checkpoint_every=2",
    "training.learning_rate=1e-3",
    "training.precision=float32",
)


@pytest.mark.slow
def test_a_kept_head_resumes_bit_for_bit_and_is_two_dense_layers(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    from sentence_transformers import SentenceTransformer

    job = TrainJob(text=Source(str(sample.TRAIN)), model=str(tiny_folder), settings=SETTINGS, dev=None, device="cpu")
    job.run(tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        job.run(tmp_path / "broken", progress=Broken(5))
    job.run(tmp_path / "broken", resume=True)
    files = [
        {file.relative_to(folder): file.read_bytes() for file in sorted(folder.rglob("*.safetensors"))}
        for folder in (tmp_path / "whole", tmp_path / "broken")
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 6, "backbone and two dense layers, kept and last"
    encoder = SentenceEncoder(tmp_path / "whole", device="cpu")
    ours = encoder.encode(sentences[:9])
    theirs = SentenceTransformer(str(tmp_path / "whole"), device="cpu").encode(sentences[:9])
    assert np.abs(ours - theirs).max() < 1e-4
    first, second = (layer for layer in as_saved(encoder.dense) if isinstance(layer, Dense))
    assert (first.activation_name, second.activation_name) == ("relu", "identity")
    assert second.linear.bias.abs().max() > 1e-3, "running means, not those of the start"


def test_what_is_saved_is_what_was_trained(model: Path, tmp_path: Path, sentences: list[str]) -> None:
    encoder = SentenceEncoder(model, pooling="mean", device="cpu")
    encoder.dense.append(Projection(32, seeded()))
    for _ in range(3):
        encoder.train()(encoder.tokenizer.pad(encoder.tokenize(sentences[:16])))
    encoder.eval().save(tmp_path / "saved")
    again = SentenceEncoder(tmp_path / "saved", device="cpu")
    assert np.abs(encoder.encode(sentences[:5]) - again.encode(sentences[:5])).max() < 1e-4
    assert fingerprint(encoder) == fingerprint(again)


def test_a_kept_head_does_not_go_with_intermediate_layers(model: Path, tmp_path: Path, sentences: list[str]) -> None:
    with pytest.raises(UserError, match=r"^vectors of intermediate layers .* encoder\.head\.keep=false, or \S+$"):
        prepared("sscl", model, tmp_path, sentences, 'encoder.head={ kind = "projection", keep = true }')
