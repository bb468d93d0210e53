"""The encoder's weights as an answer: which, and how their gradients add up over processes."""

from __future__ import annotations

import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.vectors.encoder_weights import BackboneWeights, SharedWeights
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import StepInputs


def test_they_are_the_trained_weights_of_the_backbone(encoder: SentenceEncoder, sentences: list[str]) -> None:
    frozen = encoder.backbone.get_input_embeddings().weight
    assert isinstance(frozen, torch.Tensor)
    frozen.requires_grad_(False)
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:4]))
    request = BackboneWeights()
    reps = represent(encoder, StepInputs(tokens, 2, torch.arange(4).reshape(2, 2)), [Sentences(), request])
    weights = reps[request].weights
    assert set(weights) == {name for name, p in encoder.backbone.named_parameters() if p is not frozen}
    assert all(weight.requires_grad for weight in weights.values())
    assert request not in reps.detached().answers


def test_the_gradients_of_processes_add_up_to_that_of_one() -> None:
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    loss = weight.square().sum()
    for processes in (1, 4):
        once = SharedWeights({"w": weight}, processes).once(loss)
        assert float(once.detach()) == 13
        (gradient,) = torch.autograd.grad(once, weight, retain_graph=True)
        torch.testing.assert_close(gradient * processes, torch.tensor([4.0, 6.0]))
