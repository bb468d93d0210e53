"""What texts are put into before a network reads them: a template with a slot for the text, and prompts by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.text.scripts import is_unicode

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerBase

SLOT = "{text}"
"""The place of the text in a template."""
MASK = "{mask}"
"""The place of a mask token in a template, whatever the tokenizer calls it."""


@dataclass(frozen=True)
class ColumnPrompts:
    """The prompts of a row's texts, by their columns.

    Example:
        >>> ColumnPrompts(single="", first="query: ", others="passage: ").of(3)
        ('query: ', 'passage: ', 'passage: ')

    Attributes:
        single: before the text of a row with one text.
        first: before the first text of a pair or triple.
        others: before the other texts of a pair or triple.
    """

    single: str = ""
    first: str = ""
    others: str = ""

    def __bool__(self) -> bool:
        return bool(self.single or self.first or self.others)

    def of(self, width: int) -> tuple[str, ...]:
        """The prompt of each of ``width`` columns."""
        return (self.single,) if width == 1 else (self.first, *[self.others] * (width - 1))


@dataclass(frozen=True)
class Template:
    """A template with one slot, such as ``This sentence of "{text}" means {mask}.``.

    White space next to the slot does not count: the text has the ids that it has by itself. A prompt comes directly
    before the text, so it is inside the template too.

    Attributes:
        text: with one ``{text}``, and ``{mask}`` for the tokenizer's own mask token.

    Raises:
        UserError: if the slot is missing, or there are several.

    Example:
        >>> template = Template('This sentence of "{text}" means {mask}.')
        >>> template.prefix, template.suffix, template.ends_in_mask
        ('This sentence of "', '" means {mask}.', True)
    """

    text: str

    def __post_init__(self) -> None:
        if self.text.count(SLOT) != 1:
            raise UserError(f"the template {self.text!r} has {self.text.count(SLOT)} slots; write {SLOT} once")
        if not is_unicode(self.text):
            raise UserError(f"the template {self.text!r} holds half of a surrogate pair, which is not text")

    @property
    def prefix(self) -> str:
        """The template before the slot."""
        return self.text.split(SLOT)[0].rstrip()

    @property
    def suffix(self) -> str:
        """The template after the slot."""
        return self.text.split(SLOT)[1].lstrip()

    @property
    def ends_in_mask(self) -> bool:
        """Whether a mask token comes after the slot, so that the last one of every text is the template's."""
        return MASK in self.suffix


@dataclass(frozen=True)
class Frame:
    """The ids that a template and the tokenizer's special tokens put around every text.

    A text that is too long is truncated in the slot; these ids always stay.

    Attributes:
        before: the ids before the text.
        after: the ids after the text.

    Example:
        >>> Frame((2, 7), (8, 3)).around([5, 6]).tolist()
        [2, 7, 5, 6, 8, 3]
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    @classmethod
    def of(cls, template: Template, tokenizer: PreTrainedTokenizerBase) -> Frame:
        """The ids of a template, by a tokenizer with a Rust backend.

        Raises:
            UserError: for a template with a mask and a tokenizer without mask token.
        """
        name = tokenizer.name_or_path or type(tokenizer).__name__
        if MASK in template.text and tokenizer.mask_token is None:
            raise UserError(f"{name}: the tokenizer has no mask token, which the template {template.text!r} needs")
        backend = type(tokenizer.backend_tokenizer).from_str(tokenizer.backend_tokenizer.to_str())
        backend.no_truncation()
        backend.no_padding()
        plain = backend.encode("a")
        special = plain.special_tokens_mask
        start = special.index(0)
        stop = len(special) - special[::-1].index(0)

        def ids(text: str) -> list[int]:
            return list(backend.encode(text.replace(MASK, str(tokenizer.mask_token)), add_special_tokens=False).ids)

        return cls(
            (*plain.ids[:start], *ids(template.prefix)),
            (*ids(template.suffix), *plain.ids[stop:]),
        )

    def around(self, ids: Sequence[int] | NDArray[np.int32]) -> NDArray[np.int32]:
        """The ids of a text in the template."""
        return np.concatenate([self.before, ids, self.after]).astype(np.int32)

    def inside(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """The inverse: the text's ids, of ids in this template."""
        return ids[len(self.before) : len(ids) - len(self.after)]

    def replacing(self, token: int, other: int) -> Frame:
        """The same with ``other`` for the last ``token`` after the text."""
        index = len(self.after) - 1 - self.after[::-1].index(token)
        return Frame(self.before, (*self.after[:index], other, *self.after[index + 1 :]))

    def processor(self, backend: Backend) -> TemplateProcessing:
        """The step of a backend of the tokenizers library that puts these ids around every text."""
        from tokenizers.processors import TemplateProcessing

        def named(name: str, ids: tuple[int, ...]) -> dict[str, object]:
            return {"id": name, "ids": list(ids), "tokens": [backend.id_to_token(number) or MASK for number in ids]}

        return TemplateProcessing(
            single="before:0 $A:0 after:0",
            pair="before:0 $A:0 $B:0 after:0",
            special_tokens=[named("before", self.before), named("after", self.after)],
        )
