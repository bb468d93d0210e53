"""A new backbone to begin a pretraining run with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opencse.encoder.create import Shape, create_backbone
from opencse.text.readers import Source
from opencse.text.wordpiece import train_wordpiece
from opencse.training.reporter import Reporter


@dataclass(frozen=True)
class NewBackbone:
    """A BERT to be made from the text.

    Attributes:
        vocabulary: pieces to learn.
        shape: its size.
    """

    vocabulary: int
    shape: Shape

    def write(self, source: Source, folder: Path, seed: int, tell: Reporter) -> None:
        """Learns the vocabulary from ``source`` and writes the backbone, its weights drawn by ``seed``, to ``folder``.

        Raises:
            UserError: for bad input, or a folder that cannot be written.
        """
        texts = [text for row in source.read().rows for text in row]
        tell.say(f"vocabulary learning {self.vocabulary:,} pieces from {len(texts):,} texts")
        tokenizer = train_wordpiece(texts, self.vocabulary, max_length=self.shape.positions)
        create_backbone(tokenizer, self.shape, folder, seed)
