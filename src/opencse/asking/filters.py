"""Decides which questions are dropped: refusals, copied from the passage, repeats, wrong lengths, other languages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from opencse.asking.sources import SourcePassage
from opencse.search.stems import language_of
from opencse.text.scripts import count_words, folded, pieces_of

REASONS = {
    "refusal": "in which the language model refuses",
    "short": "too short",
    "long": "too long",
    "copy": "copies of the passage",
    "repeat": "repeating another one",
    "language": "in another language",
    "lost": "not leading back to the document",
}
"""Why a question is dropped, after "question" in messages."""
_REFUSAL = re.compile(
    r"^(?:i['’]?m (?:very )?sorry\b|i am (?:very )?sorry\b|sorry, |i apologi[sz]e\b"
    r"|as an ai\b|as a (?:large )?language model\b"
    r"|i(?: can(?:no|['’])t| am unable to| am not able to)"
    r" (?:assist|help|generate|create|provide|write|fulfil|comply|answer|continue)"
    r"|(?:es )?tut mir leid\b|désolée?\b|je suis désolée?\b|lo siento\b|mi dispiace\b|sinto muito\b|n/?a$|none$)",
    re.IGNORECASE,
)
_COPIED_WORDS, _COPIED_SHARE = 5, 0.7
DETECTED = frozenset(
    {"danish", "dutch", "english", "french", "german", "italian", "norwegian", "portuguese", "russian", "spanish"}
    | {"swedish", "turkish"}
)
"""Languages that `opencse.search.stems.language_of` recognises."""
_CLOSE = frozenset({"danish", "norwegian"})  # too similar to be distinguished in one question
_WORDS_TO_DETECT = 6


@dataclass
class QuestionFilter:
    """Says why a question is dropped; remembers all that passed, to drop repeats.

    Example:
        >>> passage = SourcePassage(0, "a", 1, "", "Vinegar in the kettle removes the limescale of many years.")
        >>> keep = QuestionFilter()
        >>> [keep.fault(question, passage) for question in ("What removes limescale?", "what removes limescale")]
        [None, 'repeat']
        >>> [keep.fault(text, passage) for text in ("Vinegar in the kettle removes the limescale", "I'm sorry, no.")]
        ['copy', 'refusal']

    Attributes:
        shortest: words of a question, at least.
        longest: words of a question, at most.
        language: one of `DETECTED`; questions that are clearly in another one are dropped. None: any.
    """

    shortest: int = 2
    longest: int = 40
    language: str | None = None
    _passed: set[str] = field(default_factory=set)

    def fault(self, question: str, passage: SourcePassage) -> str | None:
        """The key of `REASONS` why ``question`` is dropped; None if it passes."""
        key = " ".join(words_of(question))
        words = count_words(question)
        if _REFUSAL.match(question):
            return "refusal"
        if words < self.shortest:
            return "short"
        if words > self.longest:
            return "long"
        if is_copy(question, passage):
            return "copy"
        if key in self._passed:
            return "repeat"
        if self.language is not None and words >= _WORDS_TO_DETECT:
            language = language_of([question]) or self.language
            if language != self.language and not {language, self.language} <= _CLOSE:
                return "language"
        self._passed.add(key)
        return None


def is_copy(question: str, passage: SourcePassage) -> bool:
    """Whether a question is the title, or at least seven tenths of it are a run of five or more words of title or text.

    >>> is_copy("Kettles", SourcePassage(0, "a", 1, "Kettles", "Kettles: fill them."))
    True
    """
    words, text = words_of(question), words_of(f"{passage.title} {passage.text}")
    if words == words_of(passage.title):
        return True
    run = SequenceMatcher(None, words, text, autojunk=False).find_longest_match().size
    return run >= _COPIED_WORDS and run >= _COPIED_SHARE * len(words)


def words_of(text: str) -> list[str]:
    """The words of a text in order, without case and punctuation; characters in languages without spaces.

    >>> words_of("What's new?")
    ['what', 's', 'new']
    """
    plain = re.sub(r"[^\w]+", " ", folded(text))
    return [plain[start:end] for start, end in pieces_of(plain)]
