"""Plans the requests to a language model: their prompts, tokens and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opencse.asking.chat_server import ChatReply
from opencse.asking.journal import key_of
from opencse.asking.prompts import QuestionPrompt
from opencse.asking.sources import FEWEST_WORDS, SourcePassage
from opencse.errors import UserError
from opencse.numerals import number_of

_BYTES_PER_TOKEN = 4
_TOKENS_AROUND = 8
"""Tokens that a server adds to a prompt, for the role of who writes it."""
_TOKENS_OF_QUESTION = 20


@dataclass(frozen=True)
class TokenPrices:
    """Prices in any currency, per million tokens.

    Example:
        >>> TokenPrices(0.5, 2.0).of(2_000_000, 100_000)
        1.2

    Attributes:
        tokens_in: of prompts.
        tokens_out: of answers.
    """

    tokens_in: float
    tokens_out: float

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """The price of so many tokens."""
        return (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / 1e6


@dataclass(frozen=True)
class PlannedRequest:
    """A request for the questions about one passage.

    Attributes:
        passage: what is asked about.
        prompt: what is sent.
        key: identifies prompt, model and settings; see `opencse.asking.journal.key_of`.
    """

    passage: SourcePassage
    prompt: str
    key: str


@dataclass(frozen=True)
class RequestPlan:
    """All requests of a call.

    Attributes:
        requests: in the order of the collection.
        documents: of the collection.
        passages: of the collection.
        count: questions per request.
        prices: None: unknown.
    """

    requests: tuple[PlannedRequest, ...]
    documents: int
    passages: int
    count: int
    prices: TokenPrices | None = None

    def remaining(self, replies: Mapping[str, ChatReply]) -> list[PlannedRequest]:
        """The requests without an answer, each once."""
        return [one for one in {one.key: one for one in self.requests}.values() if one.key not in replies]

    def tokens(self, requests: Sequence[PlannedRequest], replies: Mapping[str, ChatReply]) -> tuple[float, float]:
        """Tokens of the prompts of ``requests`` and of their answers, as the answers so far suggest.

        Before there are answers with counts of the server, a token is four bytes, and a question twenty tokens.
        """
        counted = [one for one in self.requests if one.key in replies and replies[one.key].tokens_in]
        size = sum(tokens_in_prompt(one.prompt) for one in requests)
        if not counted:
            return size, len(requests) * self.count * _TOKENS_OF_QUESTION
        seen = [replies[one.key] for one in counted]
        ratio = sum(one.tokens_in for one in seen) / sum(tokens_in_prompt(one.prompt) for one in counted)
        return size * ratio, len(requests) * sum(one.tokens_out for one in seen) / len(seen)

    def lines(self, replies: Mapping[str, ChatReply]) -> list[str]:
        """What the call will do, for the user."""
        remaining = self.remaining(replies)
        answered = len({one.key for one in self.requests if one.key in replies})
        of_documents = len({one.passage.row for one in self.requests})
        lines = [
            f"passages   {len(self.requests):,} of {self.passages:,} are asked about, in {of_documents:,} of "
            f"{number_of(self.documents, 'document')}",
            f"requests   {len(remaining):,}, for {number_of(self.count, 'question')} each"
            + (f"; {answered:,} are answered already" if answered else ""),
        ]
        return [*lines, self.cost_line(remaining, replies)] if remaining else lines

    def cost_line(self, requests: Sequence[PlannedRequest], replies: Mapping[str, ChatReply]) -> str:
        """The tokens of ``requests``, and their price where prices are known."""
        tokens_in, tokens_out = self.tokens(requests, replies)
        line = f"tokens     about {tokens_in:,.0f} in the prompts and {tokens_out:,.0f} in the answers"
        if self.prices is None:
            return f"{line}; their cost with --price-in and --price-out"
        return f"{line}; about {self.prices.of(tokens_in, tokens_out):,.2f} at {self.prices.tokens_in:g} and " + (
            f"{self.prices.tokens_out:g} per million"
        )


def plan_requests(
    passages: Sequence[Sequence[SourcePassage]],
    selected: Sequence[SourcePassage],
    prompt: QuestionPrompt,
    fields: Mapping[str, object],
    prices: TokenPrices | None = None,
) -> RequestPlan:
    """Plans a request for each selected passage.

    Args:
        passages: of each document of the collection.
        selected: those to ask about.
        prompt: makes the prompts.
        fields: of each request, as `ChatServer.fields` returns them.
        prices: of tokens.

    Raises:
        UserError: if there is no passage to ask about.
    """
    if not selected:
        raise UserError(
            f"no passage has {FEWEST_WORDS} words or more, so there is nothing to ask about; give more text"
        )
    prompts = [(one, prompt.of(one)) for one in selected]
    requests = tuple(PlannedRequest(one, text, key_of(fields, text)) for one, text in prompts)
    return RequestPlan(requests, len(passages), sum(len(parts) for parts in passages), prompt.count, prices)


def tokens_in_prompt(prompt: str) -> float:
    """A rough count of a prompt's tokens, for a model whose tokenizer is not known.

    >>> tokens_in_prompt("a" * 400)
    108.0
    """
    return len(prompt.encode()) / _BYTES_PER_TOKEN + _TOKENS_AROUND
