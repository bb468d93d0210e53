"""Negates English sentences by rule, without a parser (SNCSE's soft negatives)."""

from __future__ import annotations

from collections.abc import Sequence

_AUXILIARIES = frozenset(
    [
        "am",
        "is",
        "are",
        "was",
        "were",
        "can",
        "could",
        "will",
        "would",
        "shall",
        "should",
        "may",
        "might",
        "must",
        "do",
        "does",
        "did",
        "cannot",
    ]
)
_HAVE = {"have": "do not have", "has": "does not have", "had": "did not have"}
_SUBJECTS = frozenset(["i", "you", "we", "they", "who", "people", "some", "many", "most", "all", "these", "those"])
_IRREGULAR = {
    "become": "became", "begin": "began", "break": "broke", "bring": "brought", "build": "built", "buy": "bought",
    "catch": "caught", "choose": "chose", "come": "came", "draw": "drew", "drive": "drove", "eat": "ate",
    "fall": "fell", "feel": "felt", "fight": "fought", "find": "found", "fly": "flew", "get": "got", "give": "gave",
    "go": "went", "grow": "grew", "hear": "heard", "hold": "held", "keep": "kept", "know": "knew", "lead": "led",
    "leave": "left", "lose": "lost", "make": "made", "mean": "meant", "meet": "met", "pay": "paid", "rise": "rose",
    "run": "ran", "say": "said", "see": "saw", "sell": "sold", "send": "sent", "serve": "served", "show": "showed",
    "sing": "sang", "sit": "sat", "speak": "spoke", "spend": "spent", "stand": "stood", "take": "took",
    "write": "wrote",
}  # fmt: skip
_REGULAR = [
    "add",
    "allow",
    "appear",
    "ask",
    "attend",
    "believe",
    "belong",
    "call",
    "carry",
    "change",
    "consist",
    "contain",
    "continue",
    "cover",
    "create",
    "describe",
    "develop",
    "die",
    "earn",
    "enter",
    "exist",
    "explain",
    "follow",
    "happen",
    "help",
    "include",
    "increase",
    "intend",
    "involve",
    "join",
    "jump",
    "know",
    "learn",
    "like",
    "live",
    "look",
    "love",
    "move",
    "need",
    "occur",
    "offer",
    "open",
    "own",
    "perform",
    "play",
    "prefer",
    "produce",
    "provide",
    "publish",
    "reach",
    "receive",
    "release",
    "remain",
    "require",
    "return",
    "seem",
    "start",
    "stay",
    "stop",
    "study",
    "suggest",
    "support",
    "talk",
    "train",
    "travel",
    "try",
    "use",
    "visit",
    "wait",
    "walk",
    "want",
    "watch",
    "work",
]
_PUNCTUATION = "\"'()[]{}.,;:!?"


def _third(verb: str) -> str:
    """The form of ``he``: goes, tries, plays."""
    if verb.endswith(("s", "sh", "ch", "x", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "s"


def _past(verb: str) -> str:
    """The regular past: used, tried, stopped."""
    if verb in ("stop", "prefer", "occur"):
        return verb + verb[-1] + "ed"
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "ed"


_VERBS = [*_IRREGULAR, *(verb for verb in _REGULAR if verb not in _IRREGULAR)]
_FORMS = {_third(verb): f"does not {verb}" for verb in _VERBS}
_FORMS |= {_IRREGULAR.get(verb) or _past(verb): f"did not {verb}" for verb in _VERBS}
_BASES = frozenset(_VERBS)


def negated(text: str) -> str:
    """The negation of an English sentence.

    The first of these that applies:

    1. The first ``not`` is dropped.
    2. ``not`` is put after the first auxiliary or form of ``be``; ``has``, ``have`` and ``had`` are auxiliaries
       before a participle.
    3. The first verb gets ``do``, ``does`` or ``did``: ``likes`` becomes ``does not like``.
    4. ``Not`` is put before the text.

    SNCSE (Wang and Dou 2022, section 3.1; arXiv:2201.05979) has the same rules on the parse of a spaCy model. Ours
    reads words alone: of some 140 common verbs it knows the forms, and other verbs lead to rule 4; the first auxiliary
    of the text may belong to a relative clause; and a form that is also a noun (``plays``) is taken as a verb.

    Example:
        >>> negated("A dog is running.")
        'A dog is not running.'
        >>> negated("She likes old films.")
        'She does not like old films.'
        >>> negated("It was not expensive.")
        'It was expensive.'
        >>> negated("Three old boats at the shore.")
        'Not Three old boats at the shore.'
    """
    words = text.split()
    bare = [word.strip(_PUNCTUATION).lower() for word in words]
    if "not" in bare:
        number = bare.index("not")
        return " ".join([*words[:number], *words[number + 1 :]])
    for number, word in enumerate(bare):
        replacement = _negative_form(bare, number)
        if replacement is not None:
            written = words[number]
            after = written[len(written.rstrip(_PUNCTUATION)) :]
            before = written[: len(written) - len(written.lstrip(_PUNCTUATION))]
            verb = written.strip(_PUNCTUATION)
            new = f"{verb} not" if replacement == f"{word} not" else replacement
            return " ".join([*words[:number], before + new + after, *words[number + 1 :]])
    return f"Not {text}"


def _negative_form(words: Sequence[str], number: int) -> str | None:
    """What a word becomes if it is the verb that is negated; None if it is not."""
    word = words[number]
    if word == "cannot":
        return "can"
    if word in _AUXILIARIES:
        return f"{word} not"
    if word in _HAVE:
        following = [other for other in words[number + 1 : number + 3] if not other.endswith("ly") and other != "also"]
        return f"{word} not" if following and _is_participle(following[0]) else _HAVE[word]
    if number == 0 or words[number - 1] in ("a", "an", "the", "to", "of", "by", "his", "her", "its", "their"):
        return None
    if word in _FORMS:
        return _FORMS[word]
    return f"do not {word}" if word in _BASES and words[number - 1] in _SUBJECTS else None


def _is_participle(word: str) -> bool:
    return word in ("been", "had", "done", "gone", "seen") or word in _IRREGULAR.values() or word.endswith(("ed", "en"))
