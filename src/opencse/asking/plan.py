"""Plans the requests to a language model: the passages, their prompts, tokens and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from opencse.asking.chat_server import ChatReply, key_of
from opencse.errors import UserError, explaining, reason
from opencse.numerals import number_of
from opencse.search.passages import PassageSplitter
from opencse.streams import seed_of
from opencse.text.documents import Document
from opencse.text.scripts import count_words

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment


FEWEST_WORDS = 8
"""A shorter passage says too little to ask about."""
_GOLDEN = 0.6180339887498949
"""Fractional part of the golden ratio: its multiples, modulo 1, are spread evenly however many there are."""


@dataclass(frozen=True)
class SourcePassage:
    """A passage that questions are about.

    Attributes:
        row: number of its document in the collection, from 0.
        document: what refers to its document in a file; see `references_of`.
        number: of the passage in its document, from 1.
        title: of the document; may be empty.
        text: as an index stores it: of the first passage, with the title before it.
    """

    row: int
    document: str
    number: int
    title: str
    text: str

    @property
    def where(self) -> str:
        """Names the document in messages.

        >>> SourcePassage(0, "valves.md#closing", 1, "", "Close it slowly.").where
        'document 1 (valves.md#closing)'
        """
        return f"document {self.row + 1} ({self.document})"

    @property
    def body(self) -> str:
        r"""The text without the title, which only the first passage begins with.

        >>> SourcePassage(0, "a", 1, "Kettles", "Kettles\nFill it first.").body
        'Fill it first.'
        """
        begins = self.number == 1 and self.title and self.text.casefold().startswith(self.title.casefold())
        return (self.text[len(self.title) :].lstrip(" \n.:;-–—") if begins else self.text) or self.text


def passages_of_documents(documents: Sequence[Document], splitter: PassageSplitter) -> list[list[SourcePassage]]:
    """Splits each document into the passages that an index has of it; at least one per document."""
    texts = [f"{one.title}\n{one.body}" if one.title else one.body for one in documents]
    return [
        [SourcePassage(row, reference, number, document.title, text) for number, text in enumerate(parts, start=1)]
        for row, (document, reference, parts) in enumerate(
            zip(documents, references_of(documents), splitter.split(texts), strict=True)
        )
    ]


def references_of(documents: Sequence[Document]) -> list[str]:
    """What refers to each document in a file: its id, or file and section, if no other document has the same.

    Otherwise it is a fingerprint of its content, which stays when documents are added, deleted or sorted, and which no
    document has any more when the text has changed.

    >>> references_of([Document("", ("A sentence.",)), Document("", ("Another one.",), "doc-7")])
    ['text-c6f4c7a26936d1fa', 'doc-7']
    """
    counts = Counter(document.name for document in documents)
    return [
        document.name if document.name and counts[document.name] == 1 else f"text-{document.fingerprint}"
        for document in documents
    ]


def choose_passages(
    passages: Sequence[Sequence[SourcePassage]], *, documents: int | None, most: int, seed: int
) -> list[SourcePassage]:
    """Chooses the passages to ask about, in the order of the collection.

    Args:
        passages: of each document.
        documents: how many documents are drawn, spread over the collection; None: all.
        most: passages of a document, spread over it.
        seed: of the draw; a larger draw with the same seed includes a smaller one.

    Returns:
        At most ``most`` passages of each document; passages of fewer than `FEWEST_WORDS` words are left out.
    """
    usable = [[one for one in parts if count_words(one.body) >= FEWEST_WORDS] for parts in passages]
    usable = [parts for parts in usable if parts]
    rows = range(len(usable)) if documents is None else spread(min(documents, len(usable)), len(usable), seed)
    return [usable[row][position] for row in rows for position in evenly(min(most, len(usable[row])), len(usable[row]))]


def spread(count: int, size: int, seed: int) -> list[int]:
    """Draws ``count`` of ``size`` positions, spread over all of them; ascending.

    They are multiples of the golden ratio from a start that the seed gives, so a larger draw includes a smaller one.

    Example:
        >>> spread(3, 90, seed=1), spread(5, 90, seed=1)
        ([8, 43, 64], [8, 29, 43, 64, 85])
    """
    start = seed_of(seed, "documents") / 2.0**63
    drawn: set[int] = set()
    step = 0
    while len(drawn) < min(count, size):
        drawn.add(int((start + step * _GOLDEN) % 1.0 * size))
        step += 1
    return sorted(drawn)


def evenly(count: int, size: int) -> list[int]:
    """``count`` of ``size`` positions at equal distances, the first one included.

    >>> evenly(3, 9), evenly(2, 2)
    ([0, 3, 6], [0, 1])
    """
    return [position * size // count for position in range(count)]


TEMPLATE = """\
People search a collection of documents. Write {{ count }} different search queries or questions \
that the text below answers.

- People have not seen the text when they type them: do not mention "the text" or its author, and copy no sentence.
- Each can be understood by itself, and is answered by this text rather than by others on the same subject.
{% if language %}- Write in {{ language }}.
{% elif not examples %}- Write in the language of the text.
{% endif %}{% if examples %}- Write in the style, length and language of these, which people really typed:
{% for example in examples %}  {{ example }}
{% endfor %}{% endif %}
{% if title %}Title: {{ title }}
{% endif %}Text: {{ text }}

Answer with a JSON array of {{ count }} strings and nothing else.
"""
"""The built-in prompt, a Jinja template."""
PLACEHOLDERS = {
    "text": "the passage",
    "title": "its document's title, or empty",
    "count": "how many questions",
    "examples": "a list of the user's own queries, or empty",
    "language": "the value of --language, or empty",
}
"""What a template may use."""
_EXAMPLES = 8
"""Examples in one prompt; of more, each prompt has others."""


@dataclass(frozen=True)
class QuestionPrompt:
    """Makes the prompt of each passage.

    Example:
        >>> prompt = QuestionPrompt("Ask {{ count }} questions about: {{ text }}", count=2)
        >>> prompt.of(SourcePassage(0, "a", 1, "", "Vinegar removes limescale."))
        'Ask 2 questions about: Vinegar removes limescale.'

    Attributes:
        template: a Jinja template with the names in `PLACEHOLDERS`.
        count: questions per passage.
        examples: queries of the user; at most eight are in one prompt.
        language: to write in; empty: the language of the examples or the text.
        where: names the template in messages.
    """

    template: str = TEMPLATE
    count: int = 3
    examples: Sequence[str] = ()
    language: str = ""
    where: str = "the template"

    def __post_init__(self) -> None:
        from jinja2 import TemplateSyntaxError, meta

        try:
            tree = self._environment().parse(self.template)
        except TemplateSyntaxError as error:
            raise UserError(
                f"{self.where}, line {error.lineno}: is no Jinja template ({reason(error)}); correct it"
            ) from None
        used = meta.find_undeclared_variables(tree)
        known = ", ".join(f"{{{{ {name} }}}} ({meaning})" for name, meaning in PLACEHOLDERS.items())
        if unknown := sorted(used - PLACEHOLDERS.keys()):
            raise UserError(f"{self.where}: there is no value for {{{{ {unknown[0]} }}}}; a template may use {known}")
        if "text" not in used:
            raise UserError(f"{self.where}: has no {{{{ text }}}}, so every prompt would be the same; put it in")

    def of(self, passage: SourcePassage) -> str:
        """The prompt for a passage; the same whenever it is made.

        Raises:
            UserError: where the template cannot be filled.
        """
        with explaining(
            f"{self.where}: cannot be filled", Exception, fix="correct it"
        ):  # whatever the user's template does
            return self._compiled.render(
                text=passage.body,
                title=passage.title,
                count=self.count,
                language=self.language,
                examples=self._examples_of(passage),
            ).strip()

    def _examples_of(self, passage: SourcePassage) -> list[str]:
        first = seed_of(passage.number, passage.text) % max(1, len(self.examples))
        turned = [*self.examples[first:], *self.examples[:first]]
        return list(self.examples) if len(turned) <= _EXAMPLES else turned[:_EXAMPLES]

    @cached_property
    def _compiled(self) -> Template:
        return self._environment().from_string(self.template)

    @staticmethod
    def _environment() -> ImmutableSandboxedEnvironment:
        from jinja2 import StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        return ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)


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
        key: identifies prompt, model and settings; see `opencse.asking.chat_server.key_of`.
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
