"""`questions`: questions about documents, written by a language model, for `opencse.adapt`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from opencse.api.declaring import public
from opencse.api.models import load_for_vectors
from opencse.api.options.asking import AskingOptions
from opencse.asking.chat_server import ChatServer, RequestPace
from opencse.asking.filters import DETECTED, QuestionFilter
from opencse.asking.journal import AnswerJournal, read_replies
from opencse.asking.plan import TokenPrices, plan_requests
from opencse.asking.prompts import TEMPLATE, QuestionPrompt
from opencse.asking.running import send_requests
from opencse.asking.sources import choose_passages, passages_of_documents
from opencse.asking.writing import PAIR_KEYS, WrittenQuestions, write_questions
from opencse.errors import UserError, reason
from opencse.outputs import has_keys, made_folder, paths_of, require_apart, require_json, require_json_lines
from opencse.progress import Silent
from opencse.records import save_json
from opencse.search.passages import PassageSplitter
from opencse.text.corpus_documents import documents_of
from opencse.text.documents import GivenDocument
from opencse.text.files.kinds import how_read
from opencse.text.given import open_texts
from opencse.text.lists import read_list
from opencse.text.stems import LANGUAGES


@public
def questions(
    corpus: str | Path | Sequence[GivenDocument],
    out: str | Path,
    endpoint: str,
    model: str,
    **options: Unpack[AskingOptions],
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
        endpoint: address of the server, for instance ``http://localhost:8000/v1``.
        model: the language model's name on the server.
        **options: see `AskingOptions`.

    Raises:
        UserError: for bad input, a server that cannot be used, or if no question passes, in one line.
        InterruptedRunError: on Ctrl-C; all answers so far are kept.
    """
    path = Path(out)
    if path.suffix != ".jsonl":
        raise UserError(f"{out}: pairs are written as .jsonl; choose a file name with that ending")
    progress = options["progress"] or Silent()
    answers, record = path.with_suffix(".answers.jsonl"), path.with_suffix(".record.json")
    inputs = [one for one in (options["examples"], options["template"]) if isinstance(one, str | Path)]
    for file in (path, answers, record):
        require_apart(file, read=paths_of(corpus, *inputs), models=paths_of(options["encoder"]))
    require_json_lines(path, PAIR_KEYS, overwrite=options["overwrite"])
    required = [name for name, field in WrittenQuestions.model_fields.items() if field.is_required()]
    require_json(record, lambda old: has_keys(old, required), option="--out")
    prices = _prices(options)
    server = _server(endpoint, model, options)
    prompt = _prompt(options)
    documents, source = documents_of(corpus, options["fields"], say=progress.say, **how_read(options))
    encoder = load_for_vectors(options["encoder"], options)
    passages = passages_of_documents(documents, PassageSplitter(encoder, options["max_length"] or encoder.max_length))
    selected = choose_passages(passages, documents=options["documents"], most=options["passages"], seed=options["seed"])
    plan = plan_requests(passages, selected, prompt, server.fields(), prices)
    progress.say(f"documents  {source}: {len(documents):,}; their texts are sent to {server.name}")
    for line in plan.lines(read_replies(answers)[0]):
        progress.say(line)
    result = WrittenQuestions(
        out=str(path),
        model=model,
        endpoint=server.name,
        documents=plan.documents,
        passages=plan.passages,
        requests=len(plan.requests),
        settings={name: options[name] for name in _RECORDED} | {"template": prompt.template},  # type: ignore[literal-required]
        prompt=plan.requests[0].prompt,
    )
    if options["dry_run"]:
        return result
    with made_folder(path.parent), AnswerJournal.open(answers) as journal:
        failed = send_requests(plan, server, journal, workers=options["workers"], progress=progress)
        replies = dict(journal.replies)
    keep = QuestionFilter(options["shortest"], options["longest"], _detected(options["language"]))
    result = write_questions(
        result.model_copy(update={"failed": failed}),
        plan,
        replies,
        keep,
        passages,
        encoder,
        k=options["round_trip"],
        progress=progress,
    )
    save_json(record, result.to_dict())
    for line in result.lines():
        progress.say(line)
    return result


_RECORDED = (
    "per_document", "language", "round_trip", "max_length", "shortest", "longest", "temperature", "max_tokens", "seed",
)  # fmt: skip
"""Options in the record; the key of the API is in none of them."""


def _server(endpoint: str, model: str, options: AskingOptions) -> ChatServer:
    key = None
    if options["key_variable"] is not None:
        key = os.environ.get(options["key_variable"], "").strip()
        if not key:
            raise UserError(
                f"--key-variable {options['key_variable']}: the environment variable is not set; export it first"
            )
    body = {"temperature": options["temperature"], "max_tokens": options["max_tokens"], **(options["body"] or {})}
    return ChatServer(
        endpoint,
        model,
        key,
        body,
        timeout=options["timeout"],
        pace=RequestPace(options["requests_per_minute"]),
    )


def _prompt(options: AskingOptions) -> QuestionPrompt:
    """The prompt, with the user's examples and template.

    Raises:
        UserError: for a file that cannot be read, or a template that cannot be used.
    """
    template, where = TEMPLATE, "the template"
    if options["template"] is not None:
        where = str(options["template"])
        try:
            template = Path(where).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(f"--template {where}: cannot be read ({reason(error)}); give a text file") from None
    examples = options["examples"]
    if examples is None:
        queries = []
    elif isinstance(examples, str | Path):
        queries = read_list(str(examples))
    else:
        queries = [row[0] for row in open_texts(examples).read().rows]
    language = (options["language"] or "").strip()
    return QuestionPrompt(
        template,
        options["per_document"],
        tuple(dict.fromkeys(" ".join(query.split()) for query in queries)),
        LANGUAGES.get(language.lower(), language).capitalize(),
        where,
    )


def _detected(language: str | None) -> str | None:
    """The language that questions are filtered by; None where it is not recognised."""
    name = (language or "").strip().lower()
    name = LANGUAGES.get(name, name)
    return name if name in DETECTED else None


def _prices(options: AskingOptions) -> TokenPrices | None:
    price_in, price_out = options["price_in"], options["price_out"]
    if price_in is None and price_out is None:
        return None
    return TokenPrices(price_in or 0.0, price_out or 0.0)
