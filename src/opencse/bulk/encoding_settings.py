"""The model that encodes texts in bulk, and the form in which their vectors are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.opening import load
from opencse.encoder.text_encoder import DamagedVectorError, TextEncoder
from opencse.errors import require_known
from opencse.foreign import code_notice
from opencse.modules.prompts import Role
from opencse.modules.similarity import first_of, require_dimensions, unit_rows
from opencse.progress import Count, Say, uncounted

if TYPE_CHECKING:
    from opencse.kernels.precision import PrecisionName


Numbers = Literal["float32", "float16", "int8", "binary"]
NUMBERS: tuple[str, ...] = get_args(Numbers)
_LARGEST = 127


@dataclass(frozen=True)
class Form:
    """The form in which vectors are written: type of the numbers, dimensions, normalisation.

    Example:
        >>> form = Form("int8", dimensions=2)
        >>> vectors = np.array([[1.0, -0.5, 9.0]], dtype=np.float32)
        >>> form.of(vectors).tolist()
        [[127, -64]]
        >>> Form("binary").of(vectors).tolist()  # bits 101, filled with zeros to a byte
        [[160]]

    Attributes:
        numbers: ``float32``; ``float16``; ``int8``: round(127 v / max|v|), scaled by each vector's largest
            number, which keeps cosines and not lengths; ``binary``: one bit per dimension, 1 where it is above 0, eight
            in a byte (`numpy.packbits`), to be compared by the number of bits that differ.
        dimensions: only the first ones are kept; None: all.
        normalize: L2-normalise, after reducing the dimensions.
    """

    numbers: Numbers = "float32"
    dimensions: int | None = None
    normalize: bool = False

    def require(self, dimension: int) -> None:
        """Refuses a form that vectors with ``dimension`` dimensions cannot have."""
        require_known(self.numbers, NUMBERS, "kind of numbers")
        require_dimensions(self.dimensions, dimension)

    @property
    def stored(self) -> np.dtype[Any]:
        """The type of the numbers on disk."""
        return np.dtype({"float32": "<f4", "float16": "<f2", "int8": "i1", "binary": "u1"}[self.numbers])

    def kept_dimensions(self, dimension: int) -> int:
        """Number of dimensions that are written of a vector with ``dimension`` dimensions."""
        return self.dimensions or dimension

    def width(self, dimension: int) -> int:
        """Number of values on the disk for a vector with ``dimension`` dimensions."""
        dimensions = self.kept_dimensions(dimension)
        return -(-dimensions // 8) if self.numbers == "binary" else dimensions

    def of(self, vectors: NDArray[np.float32]) -> NDArray[Any]:
        """Converts (n, dimension) to (n, width), as written; values too large for float16 become infinite."""
        reduced = first_of(vectors, self.dimensions)
        if self.normalize:
            reduced = unit_rows(reduced)
        if self.numbers == "binary":
            return np.packbits(reduced > 0, axis=1)
        if self.numbers == "int8":
            largest = np.abs(reduced).max(axis=1, keepdims=True)
            with np.errstate(invalid="ignore"):
                return np.rint(reduced * (_LARGEST / np.where(largest > 0, largest, 1))).astype(np.int8)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(reduced, dtype=self.stored)


def first_wrong(written: NDArray[Any]) -> int | None:
    """The first row of written vectors that is not finite; None if all are."""
    if written.dtype.kind != "f":
        return None
    wrong = np.flatnonzero(~np.isfinite(written).all(axis=1))
    return int(wrong[0]) if len(wrong) else None


@dataclass(frozen=True, kw_only=True)
class EncodingSettings:
    """How texts are encoded, and in which form their vectors are written.

    Attributes:
        model: what `SentenceEncoder.load` takes, or an encoder.
        form: type of the numbers, dimensions, normalisation; by default float32, all, none.
        prompt_name: name of the model's prompt that is put before each text; see `SentenceEncoder.encode`.
        prompt: text that is put before each text instead.
        precision: see `SentenceEncoder.encode`.
        pooling: replaces the model's own (not with an encoder).
        device: where to put the model (not with an encoder).
        trust_remote_code: see `SentenceEncoder.load` (not with an encoder).

    Example:
        >>> settings = EncodingSettings(model="opencse-mini", form=Form("int8", dimensions=3))
        >>> encoder = settings.open(print)
        >>> settings.vectors(encoder, ["A cat.", "A dog."], settings.prompt_of(encoder)).shape
        (2, 3)
    """

    model: str | Path | TextEncoder
    form: Form = field(default_factory=Form)
    prompt_name: str | None = None
    prompt: str | None = None
    precision: PrecisionName = "float32"
    pooling: str | None = None
    device: str | None = None
    trust_remote_code: bool = False

    def open(self, say: Say) -> TextEncoder:
        """Loads the model unless it is an encoder, and checks that the form fits.

        Args:
            say: called with a line if code in the model's folder runs.

        Raises:
            UserError: for a fault in the model, or a form that its vectors cannot have.
        """
        encoder = self.model if isinstance(self.model, TextEncoder) else self.load()
        if encoder is not self.model and encoder.own_code:
            say(code_notice(encoder.own_code))
        self.form.require(encoder.dimension)
        return encoder

    def load(self) -> TextEncoder:
        """Loads the model by its name."""
        assert not isinstance(self.model, TextEncoder)
        return load(self.model, pooling=self.pooling, device=self.device, trust_remote_code=self.trust_remote_code)

    def prompt_of(self, encoder: TextEncoder) -> str:
        """The text that is put before each text; empty if there is none."""
        return encoder.prompts.requested(Role.PLAIN, self.prompt_name, self.prompt)

    def identity(self, text: str, rows: int, encoder: TextEncoder) -> dict[str, Any]:
        """Everything that vectors depend on; a call continues an earlier one only if this is equal.

        Args:
            text: fingerprint of the text.
            rows: number of texts.
            encoder: the model, opened.
        """
        return {
            "text": text,
            "rows": rows,
            "model": fingerprint(encoder),
            "prompt": self.prompt_of(encoder) or None,
            "dimension": self.form.kept_dimensions(encoder.dimension),
            "numbers": self.form.numbers,
            "normalize": self.form.normalize,
            "precision": self.precision,
            "device": encoder.device_kind,
        }

    def vectors(
        self, encoder: TextEncoder, texts: Sequence[str], prompt: str, progress: Count = uncounted
    ) -> NDArray[Any]:
        """Encodes ``texts``, each with ``prompt`` before it: (n, width), in the type that the form writes.

        Raises:
            DamagedVectorError: for a vector that holds NaN or infinity, or does not fit into the numbers of the form.
        """
        written = self.form.of(encoder.encode(texts, prompt=prompt, precision=self.precision, progress=progress))
        if (row := first_wrong(written)) is not None:
            raise DamagedVectorError(
                f"the vector of {texts[row][:40]!r} does not fit into float16; normalise it or write float32", row
            )
        return written
