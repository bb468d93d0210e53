"""Reads the questions in answers, filters them, and writes those that pass, with the record of how they were made."""

from __future__ import annotations

import ast
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from opencse.arrays import Floats, Integers
from opencse.asking.chat_server import ChatReply
from opencse.asking.plan import PlannedRequest, RequestPlan, SourcePassage
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError, shortened
from opencse.files import writing
from opencse.modules.similarity import Similarity
from opencse.numerals import number_of
from opencse.progress import Counted, Progress
from opencse.records import JsonRecord
from opencse.search.keyword_index import KeywordIndex
from opencse.search.stems import language_of
from opencse.text.scripts import count_words, folded, is_unicode, pieces_of

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[ \t]*+[\w+-]*+[ \t]*+\n(.*?)(?:```|\Z)", re.DOTALL)
_BEGINS_JSON = re.compile(r"(?m)^[ \t]*(?:\w+[ \t]*[=:][ \t]*)?(?=[\[{])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+("?)', re.DOTALL)
_COLON = re.compile(r"\s*:")
_LISTED = re.compile(
    r"^(?:[-*+•‣–—]\s+|#+\s+"
    r"|\**[(\[]?\d{1,3}[.):\]]+(?!\d)\**\s*"
    r"|\**[(\[]?(?:q|question|query|frage|pregunta)\s*#?\d{0,3}\s*[.:)\]]+\**\s*)+",
    re.IGNORECASE,
)
_QUOTES = (
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
    ("„", "“"),
    ("«", "»"),
    ("‘", "’"),
    ("「", "」"),
    ("`", "`"),
    ("**", "**"),
)
_INTRODUCTION = re.compile(
    r"^(?:here (?:are|is)|sure\b|certainly\b|of course\b|okay\b|these are|below are|the following|i hope|let me know)",
    re.IGNORECASE,
)
_LONGEST = 65_536
"""Characters of an answer, without its reasoning, that are read."""
_MOST_FAILURES = 20
"""Lines that begin as JSON and are none; each of them is read to the end of the answer."""
_KEYS = ("question", "query", "text", "q")


def read_questions(answer: str, *, finished: bool = True) -> list[str]:
    r"""The questions in an answer: a JSON array, objects, a list in Python's notation, or one question per line.

    Reasoning in ``<think>`` tags, code fences, numbering, bullets, quotes and introductions are removed.

    Example:
        >>> read_questions('Sure! Here are two:\n```json\n["How is it cleaned?", "What removes limescale?"]\n```')
        ['How is it cleaned?', 'What removes limescale?']
        >>> read_questions("1. How is it cleaned?\n2) **What removes limescale?**")
        ['How is it cleaned?', 'What removes limescale?']

    Args:
        answer: what the language model wrote.
        finished: False where it was stopped at its longest length: then the last question may be a part and is dropped.

    Returns:
        Questions, each in one line; none where there are none.
    """
    text = _THOUGHT.sub("", answer)
    text = _THOUGHT_END.sub("", text).strip()
    text, finished = text[:_LONGEST], finished and len(text) <= _LONGEST
    fenced = _FENCE.search(text)
    text = (fenced[1] if fenced else text).strip()
    texts = _of_json(text)
    if not texts:
        is_open = text[:1] in ("[", "{") and not _LISTED.match(text)  # [1] only numbers a line
        texts = _of_open_json(text) if is_open else _of_lines(text, finished)
    cleaned = [_clean(one) for one in texts if is_unicode(one)]
    return [one for one in cleaned if re.search(r"\w", one)]


def _of_json(text: str) -> list[str]:
    """The texts of the JSON values that begin a line; of several (JSON lines), of all."""
    texts: list[str] = []
    end = failures = 0
    decoder = json.JSONDecoder(strict=False)
    for match in _BEGINS_JSON.finditer(text):
        if match.end() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            failures += 1
            if failures > _MOST_FAILURES:
                break
            close = text.rfind("]" if text[match.end()] == "[" else "}") + 1
            try:
                value = ast.literal_eval(text[match.end() : close])
            except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                continue
            end = close
        texts += _texts_in(value)
    return texts


def _texts_in(value: object) -> Iterator[str]:
    """The questions in a value read from JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts_in(one)
    elif isinstance(value, dict):
        keyed = next((value[key] for key in _KEYS if isinstance(value.get(key), str)), None)
        if keyed is not None:
            yield keyed
        else:
            for one in value.values():
                yield from _texts_in(one)


def _of_open_json(text: str) -> list[str]:
    """The complete strings of an array that is not closed, or not valid; keys of objects are none."""
    strings: list[str] = []
    for match in _STRING.finditer(text):
        if match[1] and not _COLON.match(text, match.end()):
            try:
                strings.append(str(json.loads(match[0], strict=False)))
            except ValueError:
                continue
    return strings


def _of_lines(text: str, finished: bool) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not finished:
        lines = lines[:-1]
    if len(lines) > 1:
        lines = [line for line in lines if not line.endswith((":", "：")) and not _INTRODUCTION.match(line)]
    listed = [line for line in lines if _LISTED.match(line)]
    return listed if len(listed) > 1 else lines  # of a list, only its items


def _clean(text: str) -> str:
    """One question in one line, without what only marks it."""
    text = " ".join(text.split())
    before = None
    while text != before:
        before = text
        text = _LISTED.sub("", text).strip().rstrip(",").strip()
        for first, last in _QUOTES:
            inner = text[len(first) : -len(last)]
            if (
                len(text) > len(first) + len(last)
                and text.startswith(first)
                and text.endswith(last)
                and first not in inner
            ):
                text = inner.strip()
    return text


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


SEARCHED = 100_000
"""Most passages that are searched; a random sample of the others where there are more."""
_BLOCK = 64
_LANGUAGE_SAMPLE = 2_000


@dataclass(frozen=True)
class DocumentRanks:
    """The rank, from 1, of a question's document among all documents; a document has the score of its best passage.

    Attributes:
        words: by BM25; None if the document has no word of the question.
        vectors: by the encoder.
    """

    words: int | None
    vectors: int

    def within(self, k: int) -> bool:
        """Whether either search finds the document among its first k."""
        return min(self.vectors, self.words or self.vectors) <= k


def round_trip(
    questions: Sequence[str],
    rows: Sequence[int],
    passages: Sequence[Sequence[SourcePassage]],
    encoder: TextEncoder,
    progress: Progress,
) -> list[DocumentRanks]:
    """Ranks the document of each question by both searches.

    Args:
        questions: n texts.
        rows: (n,) number of each question's document.
        passages: of every document of the collection.
        encoder: encodes questions and passages.
        progress: shows the progress.
    """
    if not questions:
        return []
    searched = _searched(set(rows), passages)
    texts = [one.text for row in searched for one in passages[row]]
    starts = np.cumsum([0, *(len(passages[row]) for row in searched)])[:-1]
    position = {row: number for number, row in enumerate(searched)}
    targets = np.array([position[row] for row in rows], dtype=np.int64)
    words = KeywordIndex.of(texts, language_of(texts[:: max(1, len(texts) // _LANGUAGE_SAMPLE)]))
    documents = encoder.encode_document(texts, progress=Counted(progress, "encoding passages"))
    similarity = Similarity(encoder.similarity_fn_name)
    prepared, prepared_queries = similarity.prepared(documents), similarity.prepared(encoder.encode_query(questions))
    ranks: list[DocumentRanks] = []
    count = Counted(progress, "round trip")
    for start in range(0, len(questions), _BLOCK):
        block = slice(start, start + _BLOCK)
        by_words = np.stack([words.scores(question) for question in questions[block]])
        by_vectors = similarity.rough(prepared_queries[block], prepared).astype(np.float64)
        ranks += _ranks(by_words, by_vectors, starts, targets[block])
        count(len(ranks), len(questions))
    return ranks


def _ranks(by_words: Floats, by_vectors: Floats, starts: Integers, targets: Integers) -> Iterator[DocumentRanks]:
    """Ranks from scores (n, passages), whose documents begin at ``starts``; ``targets``: (n,) document of each row."""
    word_scores = np.maximum.reduceat(by_words, starts, axis=1)
    vector_scores = np.maximum.reduceat(by_vectors, starts, axis=1)
    for of_words, of_vectors, target in zip(word_scores, vector_scores, targets.tolist(), strict=True):
        rank = int((of_words > of_words[target]).sum()) + 1 if of_words[target] > 0 else None
        yield DocumentRanks(rank, int((of_vectors > of_vectors[target]).sum()) + 1)


def _searched(needed: set[int], passages: Sequence[Sequence[SourcePassage]]) -> list[int]:
    """The documents that are searched, ascending: all, or those needed and a random sample of the others."""
    if sum(len(parts) for parts in passages) <= SEARCHED:
        return list(range(len(passages)))
    room = SEARCHED - sum(len(passages[row]) for row in needed)
    others = [row for row in range(len(passages)) if row not in needed]
    random.Random(0).shuffle(others)
    searched = set(needed)
    for row in others:
        room -= len(passages[row])
        if room < 0:
            break
        searched.add(row)
    return sorted(searched)


FEW_DOCUMENTS = 10
"""A round trip among fewer than this many documents per rank drops little."""


class WrittenQuestions(JsonRecord):
    """Counts of what `opencse.questions` asked for and wrote.

    Example:
        >>> counts = {"documents": 9, "passages": 12, "requests": 12, "failed": 0, "unreadable": 1, "questions": 30}
        >>> result = WrittenQuestions(out="pairs.jsonl", model="qwen", dropped={"repeat": 3}, **counts)
        >>> result.lines()
        ['dropped    3 questions repeating another one', 'unreadable 1 answer without a question']

    Attributes:
        out: the file of pairs.
        model: the language model.
        endpoint: the server's address.
        documents: of the collection.
        passages: of the collection.
        requests: that were planned.
        failed: requests without an answer.
        unreadable: answers without a question.
        questions: pairs in the file.
        dropped: questions that were dropped, by the name of the filter.
        uncounted: answers without a usable count of tokens.
        tokens_in: of all prompts, as the server counted them; 0 where it does not count.
        tokens_out: of all answers.
        cost: of these tokens; None without prices.
        settings: how they were made.
        prompt: of the first request, as an example.
    """

    out: str
    model: str
    endpoint: str = ""
    documents: int
    passages: int
    requests: int
    failed: int = 0
    unreadable: int = 0
    questions: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    uncounted: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    prompt: str = ""

    def lines(self) -> list[str]:
        """What was left out and what it cost, for the user."""
        dropped = {name: count for name, count in self.dropped.items() if count}
        lines = [f"dropped    {number_of(count, 'question')} {REASONS[name]}" for name, count in dropped.items()]
        if self.unreadable:
            lines.append(f"unreadable {number_of(self.unreadable, 'answer')} without a question")
        if self.failed:
            lines.append(
                f"no answer  to {number_of(self.failed, 'request')}; the same command with --overwrite asks them again"
            )
        if self.tokens_in:
            cost = "" if self.cost is None else f": {self.cost:,.2f}"
            lines.append(f"tokens     {self.tokens_in:,} in the prompts, {self.tokens_out:,} in the answers{cost}")
            if self.uncounted:
                lines.append(
                    f"uncounted  {number_of(self.uncounted, 'answer')}, for which the server gave no usable count"
                )
        return lines


@dataclass(frozen=True)
class WrittenQuestion:
    """A question that a language model wrote about a passage."""

    text: str
    passage: SourcePassage


def questions_in(
    plan: RequestPlan, replies: Mapping[str, ChatReply], keep: QuestionFilter, progress: Progress
) -> tuple[list[WrittenQuestion], Counter[str], int]:
    """Reads the answers in the order of the collection, and filters their questions one by one.

    Returns:
        The questions that pass, how many were dropped by each filter, and how many answers have no question.
    """
    questions: list[WrittenQuestion] = []
    dropped: Counter[str] = Counter()
    unreadable = 0
    for one in _once(plan.requests):
        reply = replies.get(one.key)
        if reply is None:
            continue
        texts = read_questions(reply.content, finished=reply.finished)[: plan.count]
        if not texts:
            unreadable += 1
            if unreadable == 1:
                answer = shortened(" ".join(reply.content.split())) or "nothing"
                progress.say(f"unreadable an answer about {one.passage.where}: {answer}")
        for text in texts:
            fault = keep.fault(text, one.passage)
            if fault is None:
                questions.append(WrittenQuestion(text, one.passage))
            else:
                dropped[fault] += 1
    return questions, dropped, unreadable


def ranked_questions(
    questions: Sequence[WrittenQuestion],
    passages: Sequence[Sequence[SourcePassage]],
    encoder: TextEncoder,
    k: int,
    progress: Progress,
) -> list[tuple[WrittenQuestion, DocumentRanks]]:
    """The questions whose document is among the first k of a search for them, with its ranks; see `round_trip`."""
    if len(passages) < FEW_DOCUMENTS * k:
        progress.say(
            f"round trip the first {k} of only {len(passages):,} documents: it drops little; --round-trip 1 is stricter"
        )
    ranks = round_trip(
        [one.text for one in questions], [one.passage.row for one in questions], passages, encoder, progress
    )
    return [(one, rank) for one, rank in zip(questions, ranks, strict=True) if rank.within(k)]


def write_questions(
    started: WrittenQuestions,
    plan: RequestPlan,
    replies: Mapping[str, ChatReply],
    keep: QuestionFilter,
    passages: Sequence[Sequence[SourcePassage]],
    encoder: TextEncoder,
    *,
    k: int,
    progress: Progress,
) -> WrittenQuestions:
    """Writes the questions that pass all filters; returns ``started`` with the counts.

    Args:
        started: names the file, and says how the questions were made.
        plan: the requests.
        replies: their answers by key.
        keep: filters questions one by one.
        passages: of every document of the collection.
        encoder: searches for the round trip.
        k: first places of a search, one of which the document must have; 0: no round trip.
        progress: shows the progress.

    Raises:
        UserError: if no question passes, or the file cannot be written.
    """
    questions, dropped, unreadable = questions_in(plan, replies, keep, progress)
    ranked: list[tuple[WrittenQuestion, DocumentRanks | None]] = [(one, None) for one in questions]
    if k and questions:
        ranked = [*ranked_questions(questions, passages, encoder, k, progress)]
        dropped["lost"] = len(questions) - len(ranked)
    answers = [replies[one.key] for one in _once(plan.requests) if one.key in replies]
    tokens_in, tokens_out = sum(one.tokens_in for one in answers), sum(one.tokens_out for one in answers)
    result = started.model_copy(
        update={
            "unreadable": unreadable,
            "questions": len(ranked),
            "dropped": {name: dropped[name] for name in REASONS},
            "uncounted": sum(not one.tokens_in for one in answers),
            "tokens_in": tokens_in,
            "tokens_out": tokens_out,
            "cost": plan.prices.of(tokens_in, tokens_out) if plan.prices and tokens_in else None,
        }
    )
    if not ranked:
        reasons = "; ".join(result.lines()) or "there was none"
        raise UserError(
            f"no question is left to write ({' '.join(reasons.split())}); look at the answers, and the prompt"
        )
    write_pairs(Path(started.out), started.model, ranked)
    return result


def write_pairs(out: Path, model: str, questions: Sequence[tuple[WrittenQuestion, DocumentRanks | None]]) -> None:
    """Writes one pair per line; the file appears when it is complete.

    Raises:
        UserError: if it cannot be written.
    """
    with writing(out) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as stream:
        for one, ranks in questions:
            row: dict[str, object] = {
                "question": one.text,
                "answer": one.passage.text,
                "document": one.passage.document,
                "passage": one.passage.number,
                "model": model,
            }
            if ranks is not None:
                row["ranks"] = {"words": ranks.words, "vectors": ranks.vectors}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def _once(requests: Sequence[PlannedRequest]) -> list[PlannedRequest]:
    """Requests of the same prompt once, for the first of the passages."""
    first: dict[str, PlannedRequest] = {}
    for one in requests:
        first.setdefault(one.key, one)
    return list(first.values())
