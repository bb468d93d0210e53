"""Lets the encoder imitate the vectors that a stronger one has of the same texts, made once before training."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.files import hash_json, writing
from opencse.kernels.precision import choose_precision
from opencse.objective.columns import same_text
from opencse.objective.similarity import at_least_float32
from opencse.objective.teachers.teacher import Teacher, TeacherSettings
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations
from opencse.progress import Count, Counted, Progress
from opencse.settings import AboveZero, FromZero, ModelLocation
from opencse.text.corpus import cache_root, text_key

_BLOCK = 1_024
"""Texts whose vectors are in one file of the cache."""
_FITTED = 4_096
"""Texts that the turn into the student's space is fitted to."""


def turned(taught: Tensor, own: Tensor) -> Tensor:
    """The (t, d) map of a teacher's vectors into the student's space that keeps their cosines and moves them least.

    With T the teacher's and V the student's vectors of the same texts, and U the d principal directions of T where
    t > d (else the identity)::

        R = A B^T  with  A S B^T = svd((T U)^T V)                 the turned U R has orthonormal rows or columns

    R is the solution of the orthogonal Procrustes problem (Schoenemann 1966): of all rotations the one with the least
    ``||T U R - V||``. So the student learns what the teacher says of the texts, not the order of its dimensions.

    Args:
        taught: (N, t) vectors, of some thousand texts.
        own: (N, d) vectors of the same texts.

    Example:
        >>> own = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
        >>> taught = own.flip(1)  # the same vectors in another order of dimensions
        >>> (taught @ turned(taught, own)).allclose(own)
        True
    """
    taught, own = taught.double(), own.double()
    kept = torch.eye(taught.shape[1], dtype=taught.dtype, device=taught.device)
    if taught.shape[1] > own.shape[1]:
        # Eigenvalues ascend: the last directions hold most of the vectors' length.
        kept = torch.linalg.eigh(taught.T @ taught).eigenvectors[:, -own.shape[1] :]
    # The nearest rotation is U V^T of the cross products (Procrustes; Schönemann 1966).
    left, _, right = torch.linalg.svd((taught @ kept).T @ own, full_matrices=False)
    turn: Tensor = kept @ left @ right
    return turn.float()


def taught_vectors(texts: Mapping[int, str], teacher: SentenceEncoder, progress: Progress) -> NDArray[np.float16]:
    """(n, t) vectors of length 1; each text is encoded once, also if the process is killed meanwhile.

    They are kept next to the tokens (`opencse.text.corpus.cache_root`), so another run on these texts has them too, and
    one on a collection that has grown reads the new texts alone.

    Args:
        texts: n texts by their keys.
        teacher: the stronger encoder.
        progress: receives how long it takes, and a bar.

    Raises:
        UserError: for vectors that are not finite.
    """
    precision: Literal["bf16", "float32"] = "bf16" if choose_precision("auto", teacher.device).bf16 else "float32"
    folder = cache_root() / "teachers" / hash_json([fingerprint(teacher), precision, teacher.device_kind])[:32]
    folder.mkdir(parents=True, exist_ok=True)
    place = {key: row for row, key in enumerate(texts)}
    taught = np.zeros((len(texts), teacher.dimension), dtype=np.float16)
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as block:
            rows = [(row, place.pop(key)) for row, key in enumerate(block["keys"].tolist()) if key in place]
            if rows:
                taught[[into for _, into in rows]] = block["vectors"][[row for row, _ in rows]]
    missing, count = list(place), Counted(progress, "teacher")
    began = time.perf_counter()

    def told_from(before: int) -> Count:
        return lambda done, _: count(before + done, len(missing))

    for start in range(0, len(missing), _BLOCK):
        keys = missing[start : start + _BLOCK]
        vectors = teacher.encode(
            [texts[key] for key in keys],
            precision=precision,
            normalize_embeddings=True,
            progress=told_from(start),
        )
        taught[[place[key] for key in keys]] = vectors
        with writing(folder / f"{hash_json(keys)[:32]}.npz") as unfinished, unfinished.open("wb") as stream:
            np.savez(stream, keys=np.array(keys), vectors=np.asarray(vectors, dtype=np.float16))
        if start == 0 and len(missing) > len(keys):
            minutes = (time.perf_counter() - began) * (len(missing) / len(keys) - 1) / 60
            progress.say(f"teacher    reads {len(missing):,} texts once, in about {minutes:,.1f} min; kept in {folder}")
    return taught


class Imitate(Term):
    """Draws the vectors of all texts to those of a stronger encoder, and their similarities within the batch too.

    The teacher reads every text of the data once, before training, whole and by its own tokenizer. Its vectors are
    turned into the student's space without changing their cosines (`losses.turned`). With v the vectors of anchors and
    positives, t the teacher's of the same texts, and S_i(x) the softmax of ``cos(x_i, x_j) / temperature`` over the
    other texts j::

        loss = mean_i 1 - cos(v_i, t_i)  +  similarities * mean_i KL(S_i(t) || S_i(v))

    A text that the view changes (a word left out) has the vector of the text as it was.
    It needs no label, and no contrast: ``negatives = []`` leaves it alone. docs/results/models.md has what it adds.

    The log has ``teacher_distance``, the first mean.

    Example:
        >>> import torch
        >>> term = Imitate(Imitate.Settings(similarities=0.0))
        >>> reps = Representations.of(torch.eye(2), torch.eye(2).flip(0))
        >>> term.keys, term.vectors = torch.arange(4), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
        >>> term.loss(reps)  # of four texts, one is at a right angle to where the teacher has it
        tensor(0.2500)
    """

    class Settings(Term.Settings):
        """Settings of `Imitate`.

        Attributes:
            teacher: the stronger encoder: a folder or Hub id.
            similarities: factor of the similarities within the batch.
            temperature: divides them.
        """

        kind: Literal["imitate"] = "imitate"
        teacher: ModelLocation = "sentence-transformers/all-MiniLM-L6-v2"
        similarities: FromZero = 0.3
        temperature: AboveZero = 0.05

    settings: Settings
    keys: Tensor
    vectors: Tensor
    cannot = (("drawn_texts", "imitates vectors that are made before training"),)

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.teacher = Teacher(TeacherSettings(model=self.settings.teacher), f"{self.kind} term")

    def study(self, encoder: SentenceEncoder, texts: Iterable[str], progress: Progress) -> None:
        """Has the teacher read the texts, and turns its vectors into the encoder's space."""
        self.teacher.begin(encoder)
        by_key = dict(sorted((text_key(text), text) for text in texts))  # by hashes: a random order
        keys = [*by_key]
        taught = torch.from_numpy(taught_vectors(by_key, self.teacher.model, progress)).float()
        own = torch.from_numpy(encoder.encode([*by_key.values()][:_FITTED], normalize_embeddings=True))
        vectors = functional.normalize(taught @ turned(taught[:_FITTED], own), dim=-1)
        self.keys = torch.tensor(keys).to(encoder.device)
        self.vectors = vectors.half().to(encoder.device)
        self.teacher.close()

    def loss(self, reps: Representations) -> Tensor:
        """The sum of the distance of the vectors and that of the similarities."""
        student, taught, keys = self._both(reps)
        distance = 1 - (student * taught).sum(dim=1).mean()
        if not self.settings.similarities:
            return distance
        repeated = same_text(keys, keys)
        ours, theirs = (
            (one @ one.T / self.settings.temperature).masked_fill(repeated, -1e4).log_softmax(dim=1)
            for one in (student, taught)
        )
        return distance + self.settings.similarities * functional.kl_div(
            ours, theirs, log_target=True, reduction="batchmean"
        )

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``teacher_distance``."""
        student, taught, _ = self._both(reps)
        return {"teacher_distance": 1 - (student * taught).sum(dim=1).mean()}

    def _both(self, reps: Representations) -> tuple[Tensor, Tensor, Tensor]:
        """The vectors of anchors and positives, the teacher's, and the keys of the texts (n, 1)."""
        keys = torch.cat([reps.keys[:, :1], reps.keys[:, :2][:, -1:]])
        student = functional.normalize(at_least_float32(torch.cat([reps.anchor, reps.positive])), dim=-1)
        taught = self.vectors[torch.searchsorted(self.keys, keys[:, 0])]
        return student, taught.to(student.dtype), keys
