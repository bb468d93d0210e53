"""Writes the pairs of question and passage that pass all filters, and the record of how they were made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from opencse.asking.answers import read_questions
from opencse.asking.chat_server import ChatReply
from opencse.asking.filters import REASONS, QuestionFilter
from opencse.asking.plan import PlannedRequest, RequestPlan
from opencse.asking.round_trip import DocumentRanks, round_trip
from opencse.asking.sources import SourcePassage
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError, shortened
from opencse.files import writing
from opencse.numerals import number_of
from opencse.progress import Progress
from opencse.records import JsonRecord

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
