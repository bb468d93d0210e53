"""The anchors' texts once more, in another template or negated, as further rows of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import Encoded
from opencse.objective.vectors.negation import negated
from opencse.objective.vectors.step import Forward, Request
from opencse.text.template import Frame, Template
from opencse.text.tokenizer import Ids, Tokenizer, Tokens


def valid_template(value: str | None) -> str | None:
    """The value, if it is a template with one slot or None."""
    try:
        if value is not None:
            Template(value)
    except UserError as error:
        raise ValueError(str(error)) from None
    return value


OtherTemplate = Annotated[str | None, AfterValidator(valid_template)]
"""A template with one slot; None keeps the encoder's."""


Rewriting = Literal["none", "negated"]
"""What happens to the text itself."""


@dataclass(frozen=True)
class Rewritten(Request[Tensor]):
    """(N, d): the vectors of the anchors' texts after a change, in their own template or another one.

    Attributes:
        change: ``negated`` makes the negation of the text (`opencse.objective.vectors.negation`).
        template: that the text is put into instead of the encoder's; None keeps it.
        reader: the part, for messages.
        max_length: the most ids that the encoder reads; a text loses its end where its template would need more. None:
            no limit.
    """

    called = "negated texts, or texts in another template,"
    cannot = (("two_passes", "are further rows of one forward pass"),)
    change: Rewriting = "none"
    template: str | None = None
    reader: str = "part"
    max_length: int | None = field(default=None, compare=False)

    @property
    def anchors_only(self) -> bool:
        """The anchors alone are changed."""
        return True

    def check_encoder(self, encoder: SentenceEncoder) -> None:
        """Refuses an encoder without a template to replace."""
        require_template(encoder, self.template, self.reader)

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> Tokens:
        """Changes the texts; nothing is drawn."""
        lengths = tokens.attention_mask.sum(dim=1).tolist()
        rows = [ids[:length].astype(np.int32) for ids, length in zip(tokens.input_ids.numpy(), lengths, strict=True)]
        longest = max(lengths)
        if self.change == "negated":
            rows = [_negated(ids, tokenizer, longest) for ids in rows]
        if self.template is not None:
            frame = Frame.of(Template(self.template), tokenizer.hf)
            rows = [moved_to(ids, tokenizer, frame, self.max_length) for ids in rows]
        return tokenizer.pad(rows)

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Adds the rows to the forward pass."""
        rows = forward.add(forward.inputs.prepared[self])
        return lambda encoded: encoded.vectors[rows]


def require_template(encoder: SentenceEncoder, other: str | None, reader: str) -> None:
    """Refuses an encoder without a template that ``other`` could replace, and one that pools another mask than it has.

    Raises:
        UserError: in one line.
    """
    if other is None:
        return
    if encoder.tokenizer.template is None:
        raise UserError(
            f"the {reader} puts texts into another template than the encoder's, and the encoder has none; set it "
            "with --set encoder.template"
        )
    if encoder.tokenizer.template.ends_in_mask and not Template(other).ends_in_mask:
        raise UserError(f"the {reader}: the template {other!r} has no mask after the slot, as the encoder's has")


def add_template(encoder: SentenceEncoder, template: str | None) -> None:
    """Lets an encoder that subtracts the vectors of templates know one more of them."""
    if template is not None and encoder.alone is not None:
        encoder.alone.add(Frame.of(Template(template), encoder.tokenizer.hf))


def moved_to(ids: Ids, tokenizer: Tokenizer, frame: Frame, longest: int | None = None) -> Ids:
    """A text's ids in another template; the text loses its end where they are more than ``longest``."""
    assert tokenizer.frame is not None
    text = tokenizer.frame.inside(ids)
    return frame.around(text if longest is None else text[: max(0, longest - len(frame))])


def _negated(ids: Ids, tokenizer: Tokenizer, longest: int) -> Ids:
    """The ids of a text's negation, in the same template."""
    inside = ids if tokenizer.frame is None else tokenizer.frame.inside(ids)
    text = str(tokenizer.hf.decode(inside.tolist(), skip_special_tokens=True))
    return tokenizer.encode([negated(text)], longest)[0]
