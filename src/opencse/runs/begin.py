"""Starts that a run makes for itself, in its own folder, instead of finding them somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError
from opencse.making.backbone import Shape, create_backbone
from opencse.making.vocabulary import train_wordpiece
from opencse.progress import Progress
from opencse.text.given import TextSource, some_texts


class NewStart(Protocol):
    """Something a run can begin with, once it is written to a folder."""

    def write(self, source: TextSource, folder: Path, seed: int, tell: Progress) -> None:
        """Writes the start to ``folder``.

        Args:
            source: the text of the run.
            folder: made here.
            seed: of whatever is drawn.
            tell: hears of decisions.

        Raises:
            UserError: for bad input, or a folder that cannot be written.
        """

    def require_same(self, folder: Path) -> None:
        """Refuses to go on with a run that began, in ``folder``, with another start.

        Raises:
            UserError: if it is another.
        """


@dataclass(frozen=True)
class NewBackbone:
    """A BERT to be made from the text.

    Attributes:
        vocabulary: pieces to learn.
        shape: its size.
    """

    vocabulary: int
    shape: Shape

    def write(self, source: TextSource, folder: Path, seed: int, tell: Progress) -> None:
        """Learns the vocabulary from ``source``; the weights are drawn by ``seed``."""
        texts = some_texts(source)
        tell.say(f"vocabulary learning {self.vocabulary:,} pieces from {len(texts):,} texts")
        tokenizer = train_wordpiece(texts, self.vocabulary, max_length=self.shape.positions)
        create_backbone(tokenizer, self.shape, folder, seed)

    def require_same(self, folder: Path) -> None:
        """The backbone of a run that goes on is the one it began with, whatever its shape."""


@dataclass(frozen=True)
class GivenEncoder:
    """An encoder from Python; it stays as it is.

    Attributes:
        encoder: on any device.
    """

    encoder: SentenceEncoder

    def write(self, source: TextSource, folder: Path, seed: int, tell: Progress) -> None:
        """Saves a copy of the encoder."""
        del source, seed, tell
        self.encoder.save(folder)

    def require_same(self, folder: Path) -> None:
        """The saved copy has the weights and settings of the encoder that is given now."""
        if fingerprint(SentenceEncoder.load(folder, device="cpu")) != fingerprint(self.encoder):
            raise UserError(f"{folder}: the run began with another encoder; give that one, or choose another out")
