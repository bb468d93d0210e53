"""Lists the streams of random numbers of a run; each use has its own, so that none changes another's draws."""

from __future__ import annotations

import hashlib
from enum import IntEnum, unique


@unique
class Stream(IntEnum):
    """The second word of a numpy seed ``[seed, stream, step]``."""

    ORDER = 1
    """The order of the examples of an epoch."""
    AUGMENT = 2
    """The changes that a view makes to the positives' tokens."""
    MASK = 3
    """Which tokens a masked copy hides."""
    EXAMPLES = 4
    """Which texts make an example, once per run."""
    BATCH = 6
    """The order of batches of texts of one length."""
    NOISE = 7
    """The noise of a step's parts; `seed_of` tells the parts apart."""
    REPEAT = 8
    """Repetitions that are drawn once for each text."""
    VAE_WEIGHTS = 9
    """First weights of the auto-encoder."""
    GMM_MEANS = 10
    """First means of the mixture."""
    SAMPLE = 30
    """Which rows of the text are trained on, where not all are."""
    MOMENTUM_WEIGHTS = 11
    """First weights of a momentum encoder that does not start from the pretrained ones."""
    AUGMENT_ANCHORS = 12
    """The changes that a view makes to the anchors' tokens."""
    MIXTURE = 20
    """The order of the data sets of an epoch."""


def seed_of(number: int, name: str) -> int:
    """A seed for the draws called ``name`` among all those that ``number`` is the seed of; below 2^63."""
    digest = hashlib.blake2b(f"{number}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
