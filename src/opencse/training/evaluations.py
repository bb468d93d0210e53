"""Evaluates the encoder during training, averages of its weights too; refuses one whose vectors are useless."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.first_look import TEXTS_CHECKED, UNKNOWN_LIMIT, unknown_share
from opencse.encoder.network import evaluate_together
from opencse.errors import UserError
from opencse.model_folder.adapters import shares_the_start
from opencse.modules.dense import evaluating
from opencse.objective.objective import Objective
from opencse.processes import Processes
from opencse.progress import Progress
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids
from opencse.training.callbacks import AVERAGE_OF, MetricsLog
from opencse.training.selection import DevScore, History, Selector
from opencse.training.settings import TrainingSettings


def average(start: Mapping[str, Tensor], trained: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """``(1 - share) * start + share * trained``, weight by weight.

    Tensors of integers, and those that ``start`` does not have, are taken as trained.

    Example:
        >>> average({"w": torch.tensor([0.0])}, {"w": torch.tensor([1.0])}, share=0.75)
        {'w': tensor([0.7500])}
    """
    return {
        name: torch.lerp(start[name], tensor, share) if tensor.is_floating_point() and name in start else tensor
        for name, tensor in trained.items()
    }


def points_between(
    start: Mapping[str, Tensor], averaged: Mapping[str, Tensor], share: float, shares: Sequence[float]
) -> Iterator[tuple[float, dict[str, Tensor]]]:
    """Other averages of the trained weights with the start's, made from one of them.

    Args:
        start: the start's weights.
        averaged: the average with ``share`` of the trained weights; the trained weights themselves where it is 1.
        share: above 0.
        shares: of the trained weights in the averages to make; ``share`` itself is left out.

    Returns:
        Each share with its average.

    Example:
        >>> start, half = {"w": torch.tensor([0.0])}, {"w": torch.tensor([1.0])}
        >>> [*points_between(start, half, 0.5, [0.75, 0.5, 0.25])]
        [(0.75, {'w': tensor([1.5000])}), (0.25, {'w': tensor([0.5000])})]
    """
    return ((one, average(start, averaged, one / share)) for one in shares if one != share)


PROBES = 8
SAME = 1e-6
"""Vectors that differ by less than this share of their largest value are the same up to rounding."""


def probes_of(corpus: Corpus) -> list[Ids]:
    """A few texts of the corpus with different ids (texts that differ beyond the longest input have the same)."""
    ids = (corpus.text_ids(row, 0) for row in range(min(TEXTS_CHECKED, len(corpus))))
    return list({text.tobytes(): text for text in ids if len(text)}.values())[:PROBES]


def require_known(encoder: SentenceEncoder, corpus: Corpus, model: str) -> None:
    """Refuses a text most of whose tokens are not in the model's vocabulary.

    Raises:
        UserError: with the share of unknown tokens among the first texts, and the fix.
    """
    rows = range(min(TEXTS_CHECKED, len(corpus)))
    share = unknown_share(encoder.tokenizer, [corpus.text_ids(row, 0) for row in rows])
    if share > UNKNOWN_LIMIT:
        raise UserError(
            f"{model}: {share:.0%} of the text's tokens are unknown to it; choose a model of the text's language "
            "with --model, or make one (opencse static, opencse pretrain)"
        )


def require_sound(
    encoder: SentenceEncoder, probes: Sequence[Ids], when: str, fix: str, *, allow_equal: bool = False
) -> None:
    """Refuses an encoder whose vectors of different texts are not finite, all zero, or all the same.

    Args:
        encoder: any encoder.
        probes: different texts as ids; none of them empty.
        when: the start of the message, for instance ``step 1``.
        fix: what to do about it.
        allow_equal: whether equal vectors of different texts pass, because dev pairs will show them.

    Raises:
        UserError: with the pooling and the fix.
    """
    if not probes:
        return
    with evaluating(encoder), torch.inference_mode():
        vectors = encoder.embed(encoder.tokenizer.pad(probes).to(encoder.device)).float()
    if not bool(torch.isfinite(vectors).all()):
        fault = "the vectors hold NaN or infinite values"
    elif not bool(vectors.any()):
        fault = "the vector of every text is all zeros"
    elif not allow_equal and len(vectors) > 1 and _same(vectors):
        fault = "every text has the same vector"
    else:
        return
    raise UserError(f"{when}: {fault} (pooling {encoder.pooling}); {fix}")


def _same(vectors: torch.Tensor) -> bool:
    return float((vectors - vectors[0]).abs().max()) <= SAME * float(vectors.abs().max())


@dataclass
class Evaluations:
    """Scores the encoder in training on the dev data and remembers the best weights.

    Where the settings name shares, averages of the trained weights with the start's are scored too (Wortsman et al.
    2022), and where the objective trains two encoders, both. All processes take part; the first one remembers.

    Attributes:
        encoder: that is trained; created before the first step, so that it has the start's weights.
        objective: names the encoders that may be kept.
        settings: of training.
        dev: scores encoders; None where nothing selects, and the last encoder is kept.
        world: the processes that train together.
        metrics: receives the scores.
        progress: receives the scores, for the user.
        history: the dev scores by step; in the first process.
        best: weights of the best encoder; in the first process, empty until there is one.
        better_encoder: number among `Objective.candidates` of the better one in the latest evaluation.
    """

    encoder: SentenceEncoder
    objective: Objective
    settings: TrainingSettings
    dev: Selector | None
    world: Processes
    metrics: MetricsLog
    progress: Progress

    def __post_init__(self) -> None:
        self.history = History()
        self.best: dict[str, Tensor] = {}
        self.better_encoder = 0
        averaged = self._shares_at_end or any(share < 1 for share in self.settings.average_with_start)
        weights = self._weights() if self.dev is not None and averaged else {}
        self._start_weights = {name: tensor for name, tensor in weights.items() if shares_the_start(name)}
        self._tries_weights = bool(self._start_weights) or self.objective.saved_encoder != "first"

    @property
    def _shares_at_end(self) -> tuple[float, ...]:
        """Shares of the trained weights that are tried at the end; 0: the start, with token weights as training had."""
        return (*self.settings.averages_at_end, *(() if self.encoder.token_weights is None else (0.0,)))

    @property
    def settled(self) -> bool:
        """Whether there was no new best for as many evaluations as ``patience`` allows; in the first process."""
        patience = self.settings.patience
        return patience is not None and self.history.without_gain >= patience

    def add_start(self, score: DevScore) -> None:
        """Adds the score of the encoder before the first step."""
        self.history.add(0, score)
        self.metrics.write({"step": 0, **score.record()})

    def is_due(self, step: int) -> bool:
        """Whether ``step`` is one of every few that are evaluated."""
        return self.dev is not None and step % self.settings.evaluate_every == 0

    def evaluate(self, step: int) -> None:
        """Scores the encoder after ``step`` steps; its weights are the same afterwards."""
        if self.dev is None:
            return
        weights = self._weights()
        encoders, shares = self.objective.candidates(weights), self.settings.average_with_start
        best, best_weights = self._score_average(encoders[0], shares[0], self.dev)
        self.better_encoder = 0
        for number, share in list(product(range(len(encoders)), shares))[1:]:
            score, averaged = self._score_average(encoders[number], share, self.dev)
            if score.beats(best):
                best, best_weights, self.better_encoder = score, averaged, number
        if self._tries_weights:
            self.encoder.load_state_dict(weights)
        if not self.world.first:
            return
        if self.history.add(step, best):
            self.best = best_weights
        self.metrics.write({"step": step, **best.record()})
        scores = self.history.scores
        which = "" if len(encoders) == 1 else f" of the {('first', 'second')[self.better_encoder]} encoder"
        message = f"dev {best.value:.2f}{which} (start {scores[0]:.2f}, best {scores[self.history.best_step]:.2f})"
        self.progress.advance(step, f"{message}, refused: forgets" if best.forgets else message)

    def finish(self, last_step: int) -> None:
        """Evaluates what is evaluated only after the last step; of two encoders, the better one is loaded."""
        if self.dev is not None and self._shares_at_end:
            self._evaluate_between(last_step, self.dev)
        if self.objective.saved_encoder != "first":
            self.encoder.load_state_dict(self.objective.candidates(self._weights())[self.better_encoder])

    def plain(self) -> dict[str, Any]:
        """Plain values for a checkpoint; ``best`` is saved as tensors."""
        return {"history": self.history.plain(), "better_encoder": self.better_encoder}

    def restore(self, best: dict[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restores what a checkpoint has.

        Args:
            best: weights of the best encoder.
            values: all of the checkpoint; see `plain`.
        """
        self.best, self.history = best, History.read(values["history"])
        self.better_encoder = int(values["better_encoder"])

    def _score_average(
        self, weights: dict[str, Tensor], share: float, dev: Selector
    ) -> tuple[DevScore, dict[str, Tensor]]:
        """Scores the average of ``weights`` with the start's, which the encoder then has; also returns the average."""
        averaged = weights if share == 1 else average(self._start_weights, weights, share)
        if self._tries_weights:
            self.encoder.load_state_dict(averaged)
        return replace(evaluate_together(self.encoder, self.world, dev.score), share=share), averaged

    def _evaluate_between(self, last_step: int, dev: Selector) -> None:
        """Tries further averages of the best step's weights; of the last step's where the guard accepted no step."""
        last_weights, best_step = self._weights(), self.history.best_step
        step, share, weights = last_step, 1.0, self.objective.candidates(last_weights)[self.better_encoder]
        if best_step:
            step, share, weights = best_step, self.history.by_step[best_step].share, self.best
        step, share, weights = self.world.share((step, share, weights))
        for one, averaged in points_between(self._start_weights, weights, share, self._shares_at_end):
            self.encoder.load_state_dict(averaged)
            score = replace(evaluate_together(self.encoder, self.world, dev.score), share=one)
            if not self.world.first:
                continue
            self.metrics.write({"step": last_step, AVERAGE_OF: step, **score.record()})
            if not score.beats(self.history.by_step[step]):
                continue
            if self.history.add(step, score):
                self.best = averaged
                self.progress.say(f"average    {score.named(step)} gives more: dev {score.value:.2f}")
        self.encoder.load_state_dict(last_weights)

    def _weights(self) -> dict[str, Tensor]:
        """A copy of the encoder's weights."""
        # On the CPU: the best weights and the averages of a large model would fill a GPU.
        return {name: tensor.detach().cpu().clone() for name, tensor in self.encoder.state_dict().items()}
