"""What a call takes, before the first request."""

from __future__ import annotations

import pytest

from opencse.asking.chat_server import ChatReply
from opencse.asking.plan import QuestionPrompt, RequestPlan, SourcePassage, TokenPrices, plan_requests
from opencse.errors import UserError

PASSAGES = [[SourcePassage(row, f"d{row}", 1, "", f"A text of some words about {row % 5}.")] for row in range(8)]


def plan(prices: TokenPrices | None = None) -> RequestPlan:
    prompt = QuestionPrompt("Ask {{ count }} questions: {{ text }}" + " word" * 100, count=2)
    return plan_requests(PASSAGES, [parts[0] for parts in PASSAGES], prompt, {"model": "rule"}, prices)


def test_requests_tokens_and_cost_are_printed() -> None:
    requests, tokens = plan().lines({})[1:]
    assert requests == "requests   5, for 2 questions each"
    assert tokens.startswith("tokens     about 722 in the prompts and 200 in the answers; their cost with --price-in")
    assert plan(TokenPrices(1000, 2000)).lines({})[2].endswith("; about 1.12 at 1000 and 2000 per million")


def test_equal_prompts_are_sent_once_and_answered_ones_not_again() -> None:
    one = plan()
    assert len(one.requests) == 8
    assert len(one.remaining({})) == 5
    replies = {one.requests[0].key: ChatReply("[]", tokens_in=300, tokens_out=50)}
    assert len(one.remaining(replies)) == 4
    tokens_in, tokens_out = one.tokens(one.remaining(replies), replies)
    assert tokens_in == pytest.approx(4 * 300, rel=0.01)
    assert tokens_out == 4 * 50
    everything = {request.key: ChatReply("[]") for request in one.requests}
    assert len(one.lines(everything)) == 2


def test_a_corpus_of_very_short_texts_is_refused() -> None:
    with pytest.raises(UserError, match="no passage has 8 words"):
        plan_requests(PASSAGES, [], QuestionPrompt(), {})
