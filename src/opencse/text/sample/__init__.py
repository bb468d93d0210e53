"""The built-in sample: running text to train on and graded pairs to evaluate on, written for this project.

- ``train.txt``: 270 short articles on everyday matters, 3,421 sentences, one a line, a blank line between
  articles.
- ``pairs.csv``: 1,560 pairs; ``anchor`` is a paraphrase of, or a question answered by, ``positive``, a sentence of
  ``train.txt``.
- ``dev.tsv``, ``test.tsv``: 150 graded pairs each; score (0 to 5), sentence 1, sentence 2. No sentence is in
  the other files. The rubric is in ``docs/sample.md``.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
TRAIN = FOLDER / "train.txt"
PAIRS = FOLDER / "pairs.csv"
DEV = FOLDER / "dev.tsv"
TEST = FOLDER / "test.tsv"
