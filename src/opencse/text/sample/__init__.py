"""The built-in sample: running text to train on and graded pairs to evaluate on, written for this project.

- ``train.txt``: 270 short articles on everyday matters, 3,421 sentences, one a line, a blank line between
  articles.
- ``pairs.csv``: 1,560 pairs; ``anchor`` is a paraphrase of, or a question answered by, ``positive``, a sentence of
  ``train.txt``.
- ``dev.tsv``, ``test.tsv``: 150 graded pairs each; score (0 to 5), sentence 1, sentence 2. No sentence is in
  the other files.

The graded pairs: 5 says the same thing; 4 the same but for a minor detail; 3 the same event or claim, but an important
detail differs or is missing; 2 different statements that share several particulars of one topic; 1 the same broad topic
alone; 0 nothing in common. Contradictions of an otherwise equal statement have 2 to 3; half steps are allowed. Every
pair was graded twice, the second time without the first grade in sight; the score is the mean. The two gradings agree
by 0.970 (Spearman). Common words alone correlate with the score by less than 0.11 on either half.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
TRAIN = FOLDER / "train.txt"
PAIRS = FOLDER / "pairs.csv"
DEV = FOLDER / "dev.tsv"
TEST = FOLDER / "test.tsv"
