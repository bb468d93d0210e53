"""`questions`: questions about documents, written by a language model, for `opencse.adapt`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from opencse.commands.declared import Typed, command
from opencse.commands.shared import (
    Device,
    Fields,
    Pooling,
    Reads,
    Reporter,
    TrustRemoteCode,
)
from opencse.errors import UserError, shortened
from opencse.progress import SILENT

if TYPE_CHECKING:
    from opencse.asking.plan import QuestionPrompt
    from opencse.asking.writing import WrittenQuestions
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.text.documents import GivenDocument


def fields_of(text: str) -> Mapping[str, Any]:
    """The fields that ``--body`` names.

    >>> fields_of('{"top_p": 0.9}')
    {'top_p': 0.9}

    Raises:
        UserError: for anything but a JSON object.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UserError(f"--body {shortened(text)}: is no JSON object; write one such as '{{\"top_p\": 0.9}}'")
    return value


@command
def questions(
    corpus: Annotated[
        str | Path | Sequence[GivenDocument],
        Typed("Documents, as adapt reads them: a file, a folder, or one in BEIR's layout."),
    ],
    out: Annotated[
        str | Path, Typed("File of pairs to write (.jsonl).", ("--out", "-o"), default="pairs.jsonl", file=True)
    ],
    endpoint: Annotated[str, Typed(flags=("--endpoint",))],
    model: Annotated[str, Typed(flags=("--model",))],
    *,
    per_document: Annotated[int, Typed(least=1)] = 3,
    documents: Annotated[int | None, Typed(least=1)] = None,
    passages: Annotated[int, Typed(least=1)] = 8,
    examples: Annotated[
        str | Path | Sequence[str] | None,
        Typed("File of queries that your users typed, one per line: their style, length and language are imitated."),
    ] = None,
    language: str | None = None,
    template: str | Path | None = None,
    round_trip: Annotated[int, Typed(least=0)] = 10,
    encoder: str | Path | SentenceEncoder = "opencse-mini",
    max_length: Annotated[int | None, Typed(least=1)] = None,
    shortest: Annotated[int, Typed(least=1)] = 2,
    longest: Annotated[int, Typed(least=1)] = 40,
    key_variable: str | None = None,
    temperature: Annotated[float, Typed(least=0)] = 0.7,
    max_tokens: Annotated[int, Typed(least=1)] = 1024,
    body: Annotated[
        Mapping[str, Any] | None,
        Typed(
            'More fields of each request, as JSON: \'{"top_p": 0.9}\'; null leaves a field out: \'{"temperature": '
            "null}'.",
            parser=fields_of,
        ),
    ] = None,
    workers: Annotated[int, Typed(least=1)] = 4,
    requests_per_minute: Annotated[float | None, Typed(least=0.01)] = None,
    timeout: Annotated[float, Typed(least=0.1)] = 120.0,
    price_in: Annotated[float | None, Typed(least=0)] = None,
    price_out: Annotated[float | None, Typed(least=0)] = None,
    fields: Fields = None,
    pooling: Pooling = None,
    seed: int = 42,
    overwrite: bool = False,
    dry_run: bool = False,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
    **how: Unpack[Reads],
) -> WrittenQuestions:
    """Has a language model write questions about documents, and writes those that pass the filters, with their texts.

    The server is any with OpenAI's chat API: vLLM, llama.cpp, Ollama, a hosted service. **The texts are sent to it.**
    Every answer is kept in ``NAME.answers.jsonl`` next to ``out``, so that after an interruption the same call
    continues, and other filters, more documents or another seed ask nothing twice. ``NAME.record.json`` holds counts
    and settings.

    Dropped are refusals, questions that are too short or too long, copies of the passage, repeats, and questions for
    which a search does not find their document.

    Example:
        >>> import opencse
        >>> documents = [("Kettles", "Vinegar removes the limescale that boiled water leaves in a kettle.")]
        >>> plan = opencse.questions(documents, "pairs.jsonl", "http://localhost:8000", "qwen", dry_run=True)
        >>> plan.requests, plan.questions, "vinegar" in plan.prompt.lower()
        (1, 0, True)

    Args:
        corpus: documents as `opencse.adapt` reads them: a file of any kind, a folder, or a list of texts or of
            (title, text).
        out: ``.jsonl`` file to write, with ``question``, ``answer``, ``document``, ``passage``, ``model`` and
            ``ranks``; `opencse.adapt` reads it as ``questions``.
        endpoint: address of a server with OpenAI's chat API: http://localhost:8000/v1.
        model: name of the language model on the server.
        per_document: Questions about each document, and about each passage of a long one.
        documents: Ask about so many documents, spread over the corpus; by default about all.
        passages: Passages of a long document that are asked about, at most.
        examples: queries that users typed, or a file of them; their style, length and language are imitated.
        language: Language to write in, such as German; questions that are clearly in another one are dropped. By
            default that of the examples, or of the text.
        template: File with another prompt, a Jinja template: {{ text }}, {{ title }}, {{ count }}, {{ examples }}, {{
            language }}; --dry-run shows the prompt.
        round_trip: Keep a question only if a search by words (BM25) or by --encoder has its document among the first K;
            0: keep all.
        encoder: Encoder that splits long documents into passages, and searches for --round-trip.
        max_length: Tokens of the longest passage; by default as many as the encoder reads.
        shortest: Words of a question, at least.
        longest: Words of a question, at most.
        key_variable: Environment variable that holds the key of the API; by default no key is sent.
        temperature: How freely the model writes; 0: always the likeliest word.
        max_tokens: Tokens of the longest answer.
        body: more fields of each request; None leaves a field out.
        workers: Requests at the same time.
        requests_per_minute: Requests per minute, at most.
        timeout: Seconds in which an answer must be complete.
        price_in: Price of a million tokens of prompts, to print the cost.
        price_out: Price of a million tokens of answers.
        seed: Seed of the draw of documents.
        overwrite: Replace the pairs in --out and their record; answers that are there already are used again.
        dry_run: Print how many requests and tokens it takes, and one prompt; send nothing.

    Raises:
        UserError: for bad input, a server that cannot be used, or if no question passes, in one line.
        InterruptedRunError: on Ctrl-C; all answers so far are kept.
    """
    from opencse.asking.chat_server import AnswerJournal, ChatServer, RequestPace, read_replies
    from opencse.asking.plan import TokenPrices, choose_passages, passages_of_documents, plan_requests
    from opencse.asking.running import send_requests
    from opencse.asking.writing import QuestionFilter, WrittenQuestions, write_questions
    from opencse.commands.opening import open_for_vectors
    from opencse.files import made_folder
    from opencse.outputs import paths_of, require_absent, require_apart
    from opencse.records import save_json
    from opencse.search.passages import PassageSplitter
    from opencse.text.documents import documents_of

    path = Path(out)
    if path.suffix != ".jsonl":
        raise UserError(f"{out}: pairs are written as .jsonl; choose a file name with that ending")
    answers, record = path.with_suffix(".answers.jsonl"), path.with_suffix(".record.json")
    inputs = [one for one in (examples, template) if isinstance(one, str | Path)]
    for file in (path, answers, record):
        require_apart(file, read=paths_of(corpus, *inputs), models=paths_of(encoder))
    for file in (path, record):
        require_absent(file, overwrite=overwrite)
    prices = None
    if price_in is not None or price_out is not None:
        prices = TokenPrices(price_in or 0.0, price_out or 0.0)
    key = None
    if key_variable is not None:
        key = os.environ.get(key_variable, "").strip()
        if not key:
            raise UserError(f"--key-variable {key_variable}: the environment variable is not set; export it first")
    fields_of_body = {"temperature": temperature, "max_tokens": max_tokens, **(body or {})}
    pace = RequestPace(requests_per_minute)
    server = ChatServer(endpoint, model, key, fields_of_body, timeout=timeout, pace=pace)
    prompt = _prompt(per_document, examples, language, template)
    collection, source = documents_of(
        corpus,
        fields,
        say=progress.say,
        **how,
    )
    opened = open_for_vectors(encoder, progress, pooling, device, trust_remote_code)
    candidates = passages_of_documents(collection, PassageSplitter(opened, max_length or opened.max_length))
    selected = choose_passages(candidates, documents=documents, most=passages, seed=seed)
    plan = plan_requests(candidates, selected, prompt, server.fields(), prices)
    progress.say(f"documents  {source}: {len(collection):,}; their texts are sent to {server.name}")
    for line in plan.lines(read_replies(answers)[0]):
        progress.say(line)
    result = WrittenQuestions(
        out=str(path),
        model=model,
        endpoint=server.name,
        documents=plan.documents,
        passages=plan.passages,
        requests=len(plan.requests),
        settings={
            "per_document": per_document,
            "language": language,
            "round_trip": round_trip,
            "max_length": max_length,
            "shortest": shortest,
            "longest": longest,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "seed": seed,
            "template": prompt.template,
        },
        prompt=plan.requests[0].prompt,
    )
    if dry_run:
        return result
    with made_folder(path.parent), AnswerJournal.open(answers) as journal:
        failed = send_requests(plan, server, journal, workers=workers, progress=progress)
        replies = dict(journal.replies)
    keep = QuestionFilter(shortest, longest, _detected(language))
    result = write_questions(
        result.model_copy(update={"failed": failed}),
        plan,
        replies,
        keep,
        candidates,
        opened,
        k=round_trip,
        progress=progress,
    )
    save_json(record, result.to_dict())
    for line in result.lines():
        progress.say(line)
    return result


def _prompt(
    per_document: int, examples: str | Path | Sequence[str] | None, language: str | None, file: str | Path | None
) -> QuestionPrompt:
    """The prompt, with the user's examples and template.

    Raises:
        UserError: for a file that cannot be read, or a template that cannot be used.
    """
    from opencse.asking.plan import TEMPLATE, QuestionPrompt
    from opencse.search.stems import LANGUAGES
    from opencse.text.given import open_texts, read_list

    template, where = TEMPLATE, "the template"
    if file is not None:
        where = str(file)
        template = Path(where).read_text(encoding="utf-8")
    if examples is None:
        queries = []
    elif isinstance(examples, str | Path):
        queries = read_list(str(examples))
    else:
        queries = [row[0] for row in open_texts(examples).read().rows]
    language = (language or "").strip()
    return QuestionPrompt(
        template,
        per_document,
        tuple(dict.fromkeys(" ".join(query.split()) for query in queries)),
        LANGUAGES.get(language.lower(), language).capitalize(),
        where,
    )


def _detected(language: str | None) -> str | None:
    """The language that questions are filtered by; None where it is not recognised."""
    from opencse.asking.writing import DETECTED
    from opencse.search.stems import LANGUAGES

    name = (language or "").strip().lower()
    name = LANGUAGES.get(name, name)
    return name if name in DETECTED else None
