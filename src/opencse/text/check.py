"""Checks a text before training: what it was recognised as, what would hurt quality, and which command to run."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from opencse.files import is_folder
from opencse.numerals import number_of
from opencse.settings import Settings
from opencse.text.documents import Collection
from opencse.text.duplicates import find_near_duplicates
from opencse.text.fields import suggest_fields
from opencse.text.files.formats import HTML_TAG, column_like
from opencse.text.files.kinds import SECTIONED, HowRead, typed
from opencse.text.files.lines import name_in_command
from opencse.text.folders import holds_documents, tables_in
from opencse.text.given import DocumentTexts, FileTexts, Text, graded_pairs, open_texts
from opencse.text.readers import Source, Texts
from opencse.text.rust_tokenizer import TokenCounter
from opencse.text.scripts import count_words

PAIRS_RECIPE = "simcse-supervised"
"""The recipe for rows of two or three texts."""
GRADED_RECIPE = "cosent"
"""The recipe for pairs with a score."""
_ROWS = 60
"""First lines of a text file that are compared with other kinds of files."""
SAMPLE = 20_000
"""Texts whose tokens and scripts are examined; everything else is counted over all texts."""
NEAR_EMPTY = 3
"""Texts of fewer words say too little for a vector."""
_QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
_MANY_DUPLICATES, _SOME_DUPLICATES = 0.05, 0.005
_MANY_UNKNOWN = 0.02
_WORD = re.compile(r"[^\W\d_]+")
"""A run of letters: of an identifier of code, each of its words."""
_LISTED_SIGNS = 5
_MANY_TRUNCATED = 0.1
_MANY_NEAR_EMPTY = 0.05
_SECOND_SCRIPT = 0.05
_FEW = 1_000
_WRAPPED = 0.2
_END_INSIDE = re.compile(r"[.!?]\s+[A-ZÀ-ÞΑ-ΩА-Я]")
_WRONGLY_DECODED = re.compile(
    "[\u00c2\u00c3\u00c5][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192]|\u00e2\u20ac|\ufffd"
)


@dataclass(frozen=True)
class TextToCheck:
    """A text that was read, and the command that suits it.

    Attributes:
        texts: sentences of documents, or rows.
        command: the command that trains on it; options can be appended.
        read_as: what the files were recognised as, and what was left out of them; one line each.
        advice: which fields have to be named to read it so, and what cannot be read again.
        recipe: that the command names; None: the one for documents or single texts.
    """

    texts: Texts
    command: str
    read_as: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    recipe: str | None = None


def read_to_check(
    text: Text,
    *,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    fields: Sequence[str] | None = None,
    **how: Unpack[HowRead],
) -> TextToCheck:
    """Reads ``text`` as documents or rows, as the command that suits it would; see `opencse.check` for arguments.

    Raises:
        UserError: for bad input, in one line.
    """
    if not isinstance(text, str | Path):
        texts = open_texts(text, columns=columns, split=split, fields=fields, **how).read()
        return TextToCheck(texts, _training_command("TEXT", texts.width, None, None, how))
    location = str(text)
    name = name_in_command(location)
    again = () if name == location else ("a pipe is read once: save its text in a file, and name that for FILE",)
    guessed = False
    opened: FileTexts | None = None
    if columns is None and fields is None and not holds_documents(location):
        if split is None and is_folder(location):
            if not _holds_pairs(Path(location)):
                opened = DocumentTexts(Collection(location, **how))
        elif _has_named_columns(source := Source(location, None, split or "train", **how)):
            present = source.present()
            graded = graded_pairs(source) if column_like("negative", present) is None else None
            if graded is not None:
                command = _command_for_rows(name, None, GRADED_RECIPE, how)
                kind = f"read as {source.kind}; pairs with a score each"
                lines = (kind, *_in_a_line([graded.left_out_rows]))
                return TextToCheck(graded.read(), command, lines, again, recipe=GRADED_RECIPE)
            has_text = any(column_like(usual, present) for usual in ("text", "sentence"))
            if not _are_pairs(present):
                fields = None if has_text else suggest_fields(source) or None
                guessed = fields is not None
                if guessed or has_text:
                    field_names = None if fields is None else tuple(fields)
                    opened = DocumentTexts(Collection(location, field_names, split=split or "train", **how))
    lines_read: list[str] = []
    if opened is None:
        read = open_texts(text, columns=columns, split=split, fields=fields, say=lines_read.append, **how)
        opened = read if isinstance(read, Source | DocumentTexts) else None
        texts = read.read()
    else:
        texts = opened.read()
    command = _training_command(name, texts.width, columns, fields, how)
    advice = (f"no column is called text; name the documents' title and text: {command}", *again) if guessed else again
    if isinstance(opened, DocumentTexts):
        return TextToCheck(texts, command, _in_a_line(opened.notes.lines()), advice)
    kinds = _in_a_line(lines_read)  # of a folder
    if not kinds and opened is not None and opened.is_file:
        kinds = (f"read as {opened.kind}",)
    left_out = () if opened is None else _in_a_line([opened.left_out_rows])
    if isinstance(opened, Source) and opened.is_file and opened.kind.name == "text":
        advice = (*advice, *_other_kinds(texts.rows))
    return TextToCheck(texts, command, (*kinds, *left_out), advice)


def _other_kinds(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Advice on lines of text that look like another kind of file."""
    for sign, kind, suffix in (("\t", "hold tabs: if these separate columns", "tsv"), ("{", "are JSON", "jsonl")):
        if all(sign in row[0][: None if sign == "\t" else 1] for row in rows[:_ROWS]):
            yield f"the lines {kind}, add --read-as {suffix}"


def _in_a_line(lines: Sequence[str]) -> tuple[str, ...]:
    """Lines for the user, which have a name in a column of its own, as plain words."""
    return tuple(" ".join(line.split()) for line in lines if line)


def _holds_pairs(folder: Path) -> bool:
    """Whether the first table or JSON file in a folder has columns of pairs, which `opencse.train` reads as rows."""
    return _are_pairs(next((Source(str(file)).present() for file in tables_in(folder)), ()))


def _are_pairs(present: Sequence[str]) -> bool:
    return all(column_like(name, present) for name in ("anchor", "positive"))


def _has_named_columns(source: Source) -> bool:
    """Whether it is a file of rows, and neither running text nor prose with sections."""
    return source.is_file and source.kind.name not in (*SECTIONED, "text")


def _training_command(
    location: str, width: int, columns: Sequence[str] | None, fields: Sequence[str] | None, how: HowRead
) -> str:
    if width > 1:
        return _command_for_rows(location, columns, PAIRS_RECIPE, how)
    return shlex.join(["opencse", "adapt", location, *typed({"fields": fields or columns, **how}), "--out", "adapted"])


def _command_for_rows(location: str, columns: Sequence[str] | None, recipe: str, how: HowRead) -> str:
    options = typed({"columns": columns, **how})
    return shlex.join(["opencse", "train", location, *options, "--recipe", recipe, "--out", "trained"])


class CorpusCheck(Settings):
    """The result of checking a text: counts, shares and advice.

    Attributes:
        source: name of the text.
        rows: examples.
        width: texts in each (sentences 1, pairs 2, triples 3).
        documents: number of documents of running text; 0 where there are no blank lines between documents.
        words: quantiles of the number of words in a text, by share (``0.5`` is the median).
        near_empty: share of texts of fewer than ``NEAR_EMPTY`` words.
        without_letters: share of texts without a letter.
        duplicates: share of texts that occurred before, letter case and spacing apart.
        most_repeated: the texts that occur most often, with their counts, most frequent first; those above 1 only.
        scripts: share of letters by script (``LATIN``, ``CYRILLIC``, ...) in a sample.
        sampled: texts looked at for scripts and tokens.
        unknown: share of tokens that the model's vocabulary does not know, in the sample.
        unknown_words: share of words (runs of letters, in scripts with at least 5% of the letters) with an unknown
            token, in the sample.
        unknown_signs: the most frequent signs (punctuation, symbols) of the sample that the vocabulary does not know.
        cut: share of sampled texts that are longer than ``max_length``.
        tokens_per_word: mean number of tokens per word in the sample; None without a word.
        max_length: ids that training reads of a text.
        duplicate_rows: share of rows all of whose texts occurred before in one row, compared in the same way.
        near_duplicates: share of rows that nearly repeat an earlier one; None where they were not counted.
        nearly_repeated: some of them, each with the earlier one.
        with_tags: share of texts with HTML tags.
        wrongly_decoded: share of texts with the letters that UTF-8 makes when it is read as another encoding.
        wrapped: share of texts whose sentence continues in the next one, where lines look broken at a width.
        read_as: what the files were recognised as, and what was left out; one line each.
        advice: what to do, most important first; empty if there is none. A command ends its line.
        command: what trains on the texts; empty where the model does not know their language.
    """

    source: str
    rows: int
    width: int
    documents: int
    words: dict[str, FiniteFloat]
    near_empty: FiniteFloat
    without_letters: FiniteFloat
    duplicates: FiniteFloat
    most_repeated: list[tuple[str, int]]
    scripts: dict[str, FiniteFloat]
    sampled: int
    unknown: FiniteFloat
    cut: FiniteFloat
    tokens_per_word: FiniteFloat | None
    max_length: int
    unknown_words: FiniteFloat = 0.0
    unknown_signs: list[str] = Field(default_factory=list)
    duplicate_rows: FiniteFloat = 0.0
    near_duplicates: FiniteFloat | None = None
    nearly_repeated: list[tuple[str, str]] = Field(default_factory=list)
    with_tags: FiniteFloat = 0.0
    wrongly_decoded: FiniteFloat = 0.0
    wrapped: FiniteFloat = 0.0
    read_as: list[str] = Field(default_factory=list)
    advice: list[str]
    command: str = ""


def check_corpus(
    texts: Texts,
    tokenizer: TokenCounter,
    *,
    max_length: int = 32,
    near_duplicates: float | None = None,
    command: str = "opencse adapt TEXT --out adapted",
    read_as: Sequence[str] = (),
    refused_unknown: float = 1.0,
) -> CorpusCheck:
    """Counts what in ``texts`` would help or hurt training.

    Example:
        >>> import opencse
        >>> texts = Texts([("One two three.",), ("One two three.",), ("Four!",)], None, "a list")
        >>> check = check_corpus(texts, opencse.load().tokenizer)
        >>> check.rows, round(check.duplicates, 2), round(check.near_empty, 2)
        (3, 0.33, 0.33)

    Args:
        texts: what would be trained on.
        tokenizer: of the model that would be trained.
        max_length: ids that training would read of a text.
        near_duplicates: count rows that overlap with an earlier one by this much; see `opencse.text.duplicates`.
        command: what trains on the texts; advice adds options to it.
        read_as: what the files were recognised as.
        refused_unknown: share of unknown tokens above which training is refused.

    Returns:
        Counts and shares, with advice in plain words.
    """
    flat = [text for row in texts.rows for text in row]
    lengths = np.fromiter((count_words(text) for text in flat), dtype=np.int64, count=len(flat))
    rows = [tuple(" ".join(text.lower().split()) for text in row) for row in texts.rows]  # as they are compared
    seen, distinct_rows = Counter(text for row in rows for text in row), set(rows)
    sampled = np.sort(np.random.default_rng(42).permutation(len(flat))[:SAMPLE])
    sample = [flat[i] for i in sampled]
    unknown, cut, per_word = _tokens(sample, lengths[sampled], tokenizer, max_length)
    scripts = script_shares(sample)
    near = None if near_duplicates is None else find_near_duplicates(texts.rows, near_duplicates)
    result = CorpusCheck(
        source=texts.source,
        rows=len(texts.rows),
        width=texts.width,
        documents=0 if texts.documents is None else len(set(texts.documents)),
        words={f"{q:g}": float(np.quantile(lengths, q)) for q in _QUANTILES},
        near_empty=float((lengths < NEAR_EMPTY).mean()),
        without_letters=sum(not any(c.isalpha() for c in text) for text in flat) / len(flat),
        duplicates=1 - len(seen) / len(flat),
        most_repeated=[(text[:80], count) for text, count in seen.most_common(5) if count > 1],
        scripts=scripts,
        sampled=len(sample),
        unknown=unknown,
        unknown_words=_unknown_words(sample, tokenizer, scripts) if unknown else 0.0,
        unknown_signs=_unknown_signs(sample, tokenizer) if unknown else [],
        cut=cut,
        tokens_per_word=per_word,
        max_length=max_length,
        duplicate_rows=1 - len(distinct_rows) / len(texts.rows),
        near_duplicates=None if near is None else float(near.rows.mean()),
        nearly_repeated=[] if near is None else [(_excerpt(texts, a), _excerpt(texts, b)) for a, b in near.examples],
        with_tags=sum(bool(HTML_TAG.search(text)) for text in flat) / len(flat),
        wrongly_decoded=sum(bool(_WRONGLY_DECODED.search(text)) for text in flat) / len(flat),
        wrapped=_wrapped(flat),
        read_as=list(read_as),
        advice=[],
    )
    advice = _advice(result, command)
    next_command = "" if result.unknown > refused_unknown else command
    return result.model_copy(update={"advice": advice, "command": next_command})


def _excerpt(texts: Texts, row: int) -> str:
    return " | ".join(texts.rows[row])[:80]


def _wrapped(texts: Sequence[str]) -> float:
    """Share of the lines that continue in the next one; 0 where sentences do not end within lines."""
    ends_inside = sum(bool(_END_INSIDE.search(text)) for text in texts)
    if ends_inside < _WRAPPED / 2 * len(texts):
        return 0.0
    continued = sum(
        not line.rstrip().endswith(tuple(".!?:;)\"'")) and after[:1].islower() for line, after in pairwise(texts)
    )
    return continued / len(texts)


def script_shares(texts: Sequence[str]) -> dict[str, float]:
    """Share of each script among the letters of ``texts``, largest first; empty without letters."""
    letters = Counter(c for text in texts for c in text if c.isalpha())
    by_script: Counter[str] = Counter()
    for letter, count in letters.items():
        by_script[_script(letter)] += count
    total = sum(by_script.values())
    return {script: count / total for script, count in by_script.most_common()}


@lru_cache(maxsize=100_000)
def _script(letter: str) -> str:
    """The first word of the letter's Unicode name, which names its script; ``CJK`` for Han, ``OTHER`` for nameless."""
    name = unicodedata.name(letter, "OTHER")
    return re.split(r"[ -]", name, maxsplit=1)[0]


def script_title(script: str) -> str:
    """The name of a script for messages.

    Example:
        >>> script_title("LATIN"), script_title("CJK")
        ('Latin', 'CJK')
    """
    return script if script == "CJK" else script.title()


def _tokens(
    sample: Sequence[str], words: NDArray[np.int64], tokenizer: TokenCounter, max_length: int
) -> tuple[float, float, float | None]:
    """Share of unknown tokens, share of texts over the limit, tokens for each of the ``words`` of texts read whole."""
    limit = max(max_length + 1, 512)
    ids = tokenizer.encode(sample, limit)
    unknown_id = tokenizer.unknown_id
    special = tokenizer.special_ids - {unknown_id}
    plain = [row[~np.isin(row, list(special))] for row in ids]
    tokens = sum(len(row) for row in plain)
    unknown = 0 if unknown_id is None else sum(int((row == unknown_id).sum()) for row in plain)
    truncated = sum(len(row) > max_length for row in ids) / len(ids)
    complete = [number for number, row in enumerate(ids) if len(row) < limit]
    words_read = int(words[complete].sum())
    per_word = sum(len(plain[number]) for number in complete) / words_read if words_read else None
    return unknown / max(tokens, 1), truncated, per_word


def _unknown_words(sample: Sequence[str], tokenizer: TokenCounter, scripts: Mapping[str, float]) -> float:
    """Share of the words of the texts' scripts that have an unknown token, which a known language has few of.

    Tokens also count signs: an English vocabulary without braces knows the words of code, and no one of Japanese.
    """
    counts = Counter(word for text in sample for word in _WORD.findall(text))
    words = [word for word in counts if scripts.get(_script(word[0]), 0) >= _SECOND_SCRIPT]
    total = sum(counts[word] for word in words)
    return sum(counts[word] for word in _with_unknown(words, tokenizer)) / max(total, 1)


def _unknown_signs(sample: Sequence[str], tokenizer: TokenCounter) -> list[str]:
    """The most frequent signs that the vocabulary does not know."""
    signs = Counter(c for text in sample for c in text if c.isprintable() and not c.isalnum() and not c.isspace())
    return _with_unknown([sign for sign, _ in signs.most_common()], tokenizer)[:_LISTED_SIGNS]


def _with_unknown(texts: Sequence[str], tokenizer: TokenCounter) -> list[str]:
    """The texts that have an unknown token."""
    ids = tokenizer.encode(texts, 512)
    return [text for text, row in zip(texts, ids, strict=True) if bool((row == tokenizer.unknown_id).any())]


def _advice(result: CorpusCheck, command: str) -> list[str]:
    advice: list[str] = []
    if result.wrongly_decoded > _SOME_DUPLICATES:
        advice.append(
            f"{result.wrongly_decoded:.1%} of the texts were decoded wrongly somewhere (such as Ã¼ for ü): export them "
            "again as UTF-8"
        )
    if result.with_tags > _SOME_DUPLICATES:
        advice.append(
            f"{result.with_tags:.1%} of the texts hold HTML tags: save the pages as .html files, or the texts as a "
            "table or JSON, of which tags are left out"
        )
    many_unknown = result.unknown > _MANY_UNKNOWN
    if many_unknown and result.with_tags <= _SOME_DUPLICATES and result.unknown_words > _MANY_UNKNOWN:
        remedy = f", or make one: {_static(command)}" if result.rows >= _FEW else ""  # of fewer it would be a poor one
        advice.append(
            f"{result.unknown:.1%} of the tokens are unknown to the model's vocabulary: start from a model of this "
            f"language (--model){remedy}"
        )
    elif many_unknown and result.unknown_signs:
        advice.append(
            f"{result.unknown:.1%} of the tokens are unknown to the model's vocabulary, most of them signs "
            f"({' '.join(result.unknown_signs)}): texts that differ in these alone have the same vector; where that "
            "matters, as in code, start from another model (--model)"
        )
    if result.duplicate_rows > _MANY_DUPLICATES:
        unit = "texts" if result.width == 1 else "rows"
        advice.append(
            f"{result.duplicate_rows:.1%} of the {unit} repeat another one, and crowd out other text; leave them out: "
            f"{command} --set data.near_duplicates=1"
        )
    elif result.duplicates > _SOME_DUPLICATES:
        advice.append(
            f"{result.duplicates:.1%} of the texts repeat another one; in a batch they are not each other's negatives"
        )
    if result.near_duplicates is not None and result.near_duplicates > _MANY_DUPLICATES:
        advice.append(
            f"{result.near_duplicates:.1%} of the rows nearly repeat an earlier one; leave them out: "
            f"{command} --set data.near_duplicates=0.8"
        )
    if result.wrapped > _WRAPPED and any("one text per line" in line for line in result.read_as):
        advice.append(
            f"{result.wrapped:.1%} of the lines continue in the next one, so half sentences would be learned: put the "
            "file in a folder and give that, where the lines of a paragraph are joined, or if it was taken from a PDF "
            "add --pages"
        )
    if result.near_empty > _MANY_NEAR_EMPTY:
        advice.append(
            f"{result.near_empty:.1%} of the texts have fewer than {NEAR_EMPTY} words (headings, labels?): drop them "
            "or join them with what follows"
        )
    if result.without_letters > _SOME_DUPLICATES:
        advice.append(f"{result.without_letters:.1%} of the texts hold no letter (numbers, rules?): drop them")
    if result.cut > _MANY_TRUNCATED:
        advice.append(
            f"{result.cut:.1%} of the texts are longer than {result.max_length} tokens; the rest of each is not read. "
            f"Read more: {command} --set data.max_length={2 * result.max_length}"
        )
    scripts = list(result.scripts.items())
    if len(scripts) > 1 and result.with_tags <= _SOME_DUPLICATES and scripts[1][1] > _SECOND_SCRIPT:
        shares = ", ".join(f"{script_title(name)} {share:.0%}" for name, share in scripts[:3])
        advice.append(f"several scripts ({shares}): see that the model was made for all of them")
    if result.width == 1 and 0 < 2 * result.documents <= result.rows:  # else hardly any sentence follows another one
        advice.append(
            f"running text ({number_of(result.documents, 'document')}): adapting, and --recipe next-sentence in "
            "training, learn from which sentence follows which"
        )
    if result.rows < _FEW:
        advice.append(
            f"{number_of(result.rows, 'example is', 'examples are')} few: expect little, and select on graded pairs of "
            "your own (--dev)"
        )
    return advice


def _static(command: str) -> str:
    """The command that makes an encoder of the same text."""
    words = shlex.split(command)
    options = [
        word for name in ("--columns", "--fields") if name in words for word in (name, words[words.index(name) + 1])
    ]
    return shlex.join(["opencse", "static", words[2], *options, "--out", "static-model"])
