"""The model that encodes texts in bulk, and the form in which their vectors are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from opencse.bulk.forms import Form, first_wrong
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.opening import load
from opencse.encoder.text_encoder import DamagedVectorError, TextEncoder
from opencse.foreign import code_notice
from opencse.modules.prompts import Role
from opencse.progress import Count, Say

if TYPE_CHECKING:
    from opencse.kernels.precision import PrecisionName


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
        self, encoder: TextEncoder, texts: Sequence[str], prompt: str, progress: Count | None = None
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
