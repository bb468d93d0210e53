"""Starts that a run writes to its own folder: a new backbone, one with new layers, or an encoder object from Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError
from opencse.making.backbone import Shape, create_backbone, renew_backbone
from opencse.making.vocabulary import train_wordpiece
from opencse.model_folder.locate import locate
from opencse.model_folder.masked_lm import open_masked_lm
from opencse.numerals import number_of
from opencse.progress import Progress
from opencse.text.given import TextSource, some_texts


class NewStart(Protocol):
    """A start that the run writes to its own folder, instead of opening one that exists."""

    def write(self, source: TextSource, folder: Path, seed: int, progress: Progress) -> None:
        """Writes the start to ``folder``.

        Args:
            source: the text of the run.
            folder: created by this call.
            seed: of all random numbers.
            progress: receives decisions.

        Raises:
            UserError: for bad input, or a folder that cannot be written.
        """

    def require_same(self, folder: Path) -> None:
        """Refuses to continue a run whose start, in ``folder``, is another one.

        Raises:
            UserError: if it is another.
        """


@dataclass(frozen=True)
class NewBackbone:
    """A new BERT with random weights, and a vocabulary learned from the text.

    Attributes:
        vocabulary: pieces to learn.
        shape: its size.
    """

    vocabulary: int
    shape: Shape

    def write(self, source: TextSource, folder: Path, seed: int, progress: Progress) -> None:
        """Learns the vocabulary from ``source``, and draws the weights with ``seed``."""
        texts = some_texts(source)
        progress.say(f"vocabulary learning {self.vocabulary:,} pieces from {number_of(len(texts), 'text')}")
        tokenizer = train_wordpiece(texts, self.vocabulary, max_length=self.shape.positions)
        create_backbone(tokenizer, self.shape, folder, seed)

    def require_same(self, folder: Path) -> None:
        """Accepts any: a run continues with the backbone that it began with, whatever shape is requested now."""


@dataclass(frozen=True)
class RenewedBackbone:
    """A model that exists, as a masked language model: with a new head where it has none, and layers drawn again.

    Attributes:
        model: a folder or a Hub id.
        new_layers: how many layers, from the last on, get random weights.
        trust_remote_code: run the code that the model's folder brings.
    """

    model: str
    new_layers: int = 0
    trust_remote_code: bool = False

    def write(self, source: TextSource, folder: Path, seed: int, progress: Progress) -> None:
        """Writes it with random weights of ``seed``."""
        del source
        facts = renew_backbone(self.model, folder, self.new_layers, seed=seed, trust_remote_code=self.trust_remote_code)
        progress.say(f"start      {self.model}: {facts}")

    def require_same(self, folder: Path) -> None:
        """Compares token embeddings and depth with those of the start in ``folder``."""
        now, before = (
            open_masked_lm(path, trust_remote_code=self.trust_remote_code)[0] for path in (locate(self.model), folder)
        )
        words, words_before = (dict(network.get_input_embeddings().named_parameters()) for network in (now, before))
        same_depth = now.config.num_hidden_layers == before.config.num_hidden_layers
        if not (same_depth and torch.equal(words["weight"], words_before["weight"])):
            raise UserError(f"{folder}: the run began with another model than {self.model}; give that one")


@dataclass(frozen=True)
class GivenEncoder:
    """A copy of an encoder object from Python, which itself stays unchanged.

    Attributes:
        encoder: on any device.
    """

    encoder: SentenceEncoder

    def write(self, source: TextSource, folder: Path, seed: int, progress: Progress) -> None:
        """Saves a copy of the encoder."""
        del source, seed, progress
        self.encoder.save(folder)

    def require_same(self, folder: Path) -> None:
        """Compares the weights and settings of the saved copy with those of the encoder object."""
        if fingerprint(SentenceEncoder.load(folder, device="cpu")) != fingerprint(self.encoder):
            raise UserError(f"{folder}: the run began with another encoder; pass that one, or choose another out")
