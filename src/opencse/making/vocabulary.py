"""Learns a WordPiece vocabulary from raw text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from opencse.errors import UserError, shortened

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, UNKNOWN, START, END, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
_FEWEST = 100
_MOST = 10_000_000
_COVERED = 0.9999
_ENOUGH = 400_000


def train_wordpiece(
    texts: Iterable[str], size: int, *, lower_case: bool = True, max_length: int = 128
) -> PreTrainedTokenizerFast:
    """Trains a BERT tokenizer (Devlin et al. 2019) with a vocabulary of ``size`` pieces learned from ``texts``.

    Text is cleaned, split at white space and punctuation and, with ``lower_case``, lower-cased and stripped of
    accents; words become their pieces, those inside a word with ``##`` before them; [CLS] and [SEP] are put around
    a text. A word with a character that is not among the pieces is [UNK]; those characters are rarer than 1 in 10,000.

    Args:
        texts: raw text, read once; of more than 400,000 texts an evenly spaced part is used.
        size: pieces in the vocabulary, special ones counted; small texts give fewer.
        lower_case: whether case is dropped.
        max_length: longest input in ids that the tokenizer declares.

    Raises:
        UserError: for a size that could not even hold the special pieces and an alphabet.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import BertTokenizer

    if size < _FEWEST:
        raise UserError(f"a vocabulary of {size} pieces is too small; take at least {_FEWEST}")
    if size > _MOST:
        raise UserError(f"a vocabulary of {shortened(str(size))} pieces is too large; take at most {_MOST:,}")
    normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    sample = list(texts)
    sample = sample[:: -(-len(sample) // _ENOUGH) or 1]
    alphabet = _alphabet((normalizer.normalize_str(text) for text in sample), size // 4)
    if not alphabet:
        raise UserError("the text holds no character to learn a vocabulary from")
    # The trainer numbers characters inside words in the order of a hash map, and ties are broken by those numbers
    # (tokenizers issue 1794). Passed beforehand, they have one order, and the same text gives the same vocabulary.
    inside = [f"##{character}" for character in alphabet]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=[PAD, UNKNOWN, START, END, MASK, *inside],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    trained = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    trained.normalizer = normalizer
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trained.train_from_iterator(sample, trainer, length=len(sample))

    vocabulary = trained.get_vocab()
    return BertTokenizer(vocab=vocabulary, do_lower_case=lower_case, model_max_length=max_length)


def _alphabet(texts: Iterable[str], limit: int) -> list[str]:
    """The most frequent characters, white space aside, that make up 99.99% of the texts; at most ``limit``."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    common = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
    enough_characters = _COVERED * sum(counts[c] for c in common)
    reached = list(accumulate(counts[c] for c in common))
    enough = next((i + 1 for i, covered in enumerate(reached) if covered >= enough_characters), 0)
    return sorted(common[: min(enough, limit)])
