"""The view of templates: the positive is the anchor's text in another template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.vectors.rewritten import add_template, moved_to, require_template, valid_template
from opencse.objective.views.base import ChangesTokens, SentenceView
from opencse.settings import PartSettings
from opencse.text.template import Frame, Template
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer


class Templates(ChangesTokens, SentenceView):
    """The positive in another template than the anchor, which is in the encoder's own (PromptBERT, section 4.2).

    Both go through dropout. The texts are truncated in the encoder's template, and again only where a positive would
    be longer than the encoder reads.

    Example:
        >>> encoder = SentenceEncoder("opencse-mini", pooling="mean", template="One text: {text}", device="cpu")
        >>> view = Templates(Templates.Settings(positive="Another text: {text}"))
        >>> view.begin(encoder, batch_size=1, seed=0)
        >>> texts = encoder.tokenizer.encode_words(["a cat"], None)
        >>> (ids,) = view.positives(texts, np.random.default_rng(0))
        >>> encoder.tokenizer.hf.decode(ids.tolist(), skip_special_tokens=True)
        'another text : a cat'
    """

    class Settings(PartSettings):
        """Settings of `Templates`.

        Attributes:
            positive: the template of the positives.
        """

        kind: Literal["templates"] = "templates"
        positive: Annotated[str, AfterValidator(valid_template)] = 'This sentence : "{text}" means {mask}.'

    settings: Settings
    _other: tuple[Tokenizer, Frame, int]

    def check_encoder(self, encoder: SentenceEncoder, model: str) -> None:
        """Refuses an encoder without a template."""
        require_template(encoder, self.settings.positive, "view templates")

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the ids of the positives' template."""
        frame = Frame.of(Template(self.settings.positive), encoder.tokenizer.hf)
        self._other = encoder.tokenizer, frame, encoder.max_length
        add_template(encoder, self.settings.positive)

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Puts each text into the positives' template; nothing is drawn."""
        tokenizer, frame, longest = self._other
        return [moved_to(text.ids, tokenizer, frame, longest) for text in texts]
