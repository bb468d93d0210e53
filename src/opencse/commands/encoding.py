"""Turns texts into vectors: in memory, in a file, in a folder of files, or as lines of JSON."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO, Unpack, overload

from opencse.commands.declared import REQUIRED, Typed, command
from opencse.commands.shared import (
    Device,
    Dimensions,
    Encoder,
    Engine,
    Fields,
    Pooling,
    Precision,
    Reads,
    Reporter,
    TrustRemoteCode,
)
from opencse.errors import InterruptedRunError, UserError
from opencse.progress import SILENT, Counted, Say

if TYPE_CHECKING:
    from opencse.arrays import Embeddings
    from opencse.bulk.streaming import EncodedFile
    from opencse.encoder.text_encoder import TextEncoder
    from opencse.text.given import DocumentTexts, Text


SHARD_ROWS = 32_768
"""Vectors in each file of a folder."""


@overload
def encode(model: str | Path | TextEncoder, text: Text, out: None = None, **options: Any) -> Embeddings: ...


@overload
def encode(model: str | Path | TextEncoder, text: Text, out: str | Path | TextIO, **options: Any) -> EncodedFile: ...


@command  # type: ignore[misc]  # the overloads take the options as they are
def encode(
    model: Encoder,
    text: Annotated[
        Text, Typed("Text file, one text per line; a table or JSON (--column); or documents; - reads standard input.")
    ],
    out: Annotated[
        str | Path | TextIO | None,
        Typed(
            "FILE.npy, a folder (several files and a manifest), or - (JSON lines to standard output).",
            ("--out", "-o"),
            default=REQUIRED,
            parser=Path,
            metavar="OUT",
        ),
    ] = None,
    *,
    column: Annotated[str | None, Typed(flags=("--column", "--columns"))] = None,
    fields: Fields = None,
    dimensions: Dimensions = None,
    prompt_name: str | None = None,
    prompt: Annotated[str | None, Typed(quoted=True)] = None,
    normalize: bool = False,
    numbers: Literal["float32", "float16", "int8", "binary"] = "float32",
    file_format: Annotated[Literal["npy", "parquet"], Typed(flags=("--format",))] = "npy",
    shard_rows: Annotated[int, Typed(least=1)] = SHARD_ROWS,
    processes: Annotated[
        int | None, Typed("Processes that fill a folder; by default one for each GPU or core.", default=None, least=1)
    ] = 1,
    precision: Precision = "float32",
    engine: Engine = "local",
    pooling: Pooling = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    overwrite: bool = False,
    progress: Reporter = SILENT,
    **how: Unpack[Reads],
) -> Embeddings | EncodedFile:
    """Encodes a text as an array, or writes its vectors to a file or a folder as they are computed.

    When vectors are written, at most 32,768 texts and their vectors are in memory (of each process), and after an
    interruption the same call continues. For texts in memory, `SentenceEncoder.encode` has more options.

    Example:
        >>> import opencse
        >>> vectors = opencse.encode("opencse-mini", ["The kettle boils.", "Snow fell."])
        >>> vectors.shape
        (2, 448)

    Args:
        text: a file, a Hub data set id, a `Source`, or a list of texts. In rows of several texts the first is read.
            Vector i belongs to line i + 1 of a text file; blank lines are refused, except at its end.
        out: ``.npy`` file to write, a folder for files of ``shard_rows`` vectors each and a manifest, or an open text
            file for JSON lines (``text``, ``vector``). A list of texts cannot be written. The texts of documents are
            their sentences: ``sentences.jsonl`` in the folder, or ``NAME.sentences.jsonl`` next to the file, has the
            ``id`` of the document and the ``text`` of each vector, and so have JSON lines.
        column: Column to read, by name or position; each of its texts is one vector.
        prompt_name: Prompt of the model to put before each text: query, document, ...; by default the model's default
            prompt.
        prompt: Text to put before each text instead of a prompt of the model.
        normalize: L2-normalise the vectors.
        numbers: Type of the numbers; int8 and binary keep directions (cosines), not lengths.
        file_format: Files in a folder.
        shard_rows: Vectors in each file of a folder.
        processes: processes that fill a folder; None: one for each GPU, or on the CPU as many as cores and memory
            allow. A script that starts several needs ``if __name__ == "__main__"``.
        overwrite: Replace FILE.npy (and the file of its sentences) if it exists; the old file stays until the new one
            is complete.

    Returns:
        (n, dimension) float32, or what was written to ``out``.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C while a file is written.
    """
    from opencse.bulk.encoding_settings import EncodingSettings, Form
    from opencse.bulk.streaming import encode_file, sentences_file, write_lines
    from opencse.commands.opening import open_for_vectors
    from opencse.encoder.first_look import measured_precision, sample_of
    from opencse.encoder.text_encoder import TextEncoder
    from opencse.files import partial_path
    from opencse.modules.prompts import Role
    from opencse.outputs import paths_of, require_absent, require_apart
    from opencse.text.given import DocumentTexts, GivenTexts, open_texts, say_left_out_rows

    to_folder = isinstance(out, str | Path) and _is_folder(out)
    if not to_folder:
        if engine != "local":
            raise UserError(f"--engine {engine} needs --out FOLDER")
        if processes not in (None, 1) or file_format != "npy" or shard_rows != SHARD_ROWS:
            raise UserError("--format, --shard-rows and --processes need --out FOLDER")
    if isinstance(out, str | Path):
        require_apart(out, read=paths_of(text), models=paths_of(model))
        if not to_folder:
            require_absent(out, overwrite=overwrite)
    source = open_texts(
        text,
        columns=None if column is None else [column],
        fields=fields,
        **how,
        say=progress.say,
    )
    if out is not None and not isinstance(out, str | Path):  # elsewhere vector i is of row i
        say_left_out_rows(source, progress.say)
    form = Form(numbers, dimensions, normalize)
    if out is None:
        encoder = open_for_vectors(model, progress, pooling, device, trust_remote_code)
        form.require(encoder.dimension)
        if not isinstance(source, GivenTexts):
            source.count_rows()
        first_texts = [row[0] for row in source.read().rows]
        before = encoder.prompts.requested(Role.PLAIN, prompt_name, prompt)
        measured = measured_precision(precision, encoder, sample_of(first_texts), before)
        if precision == "auto":
            progress.say(measured.line)
        count = Counted(progress, "encoding")
        return form.of(encoder.encode(first_texts, prompt=before, precision=measured.name, progress=count))
    if isinstance(source, GivenTexts):
        raise UserError(
            f"{source.name}: only the vectors of a file are written; index a folder (opencse index build), and for a "
            "list of texts save the vectors that are returned (numpy.save)"
        )
    if isinstance(out, str | Path) and not to_folder and isinstance(source, DocumentTexts):
        names = sentences_file(Path(out))
        require_apart(names, read=paths_of(text), models=paths_of(model))
        require_absent(names, overwrite=overwrite or partial_path(Path(out).resolve()).exists())
    encoder_or_name: str | Path | TextEncoder = model
    if precision == "auto" or isinstance(model, TextEncoder) or not isinstance(out, str | Path):
        encoder = open_for_vectors(model, progress, pooling, device, trust_remote_code)
        if precision == "auto":
            texts = sample_of(row[0] for _, row in source.examples())
            before = encoder.prompts.requested(Role.PLAIN, prompt_name, prompt)
            measured = measured_precision("auto", encoder, texts, before)
            progress.say(measured.line)
            precision = measured.name
        encoder_or_name = model if to_folder else encoder  # of a folder each process opens its own
    settings = EncodingSettings(
        model=encoder_or_name,
        form=form,
        prompt_name=prompt_name,
        prompt=prompt,
        precision=precision,
        pooling=pooling,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    if not isinstance(out, str | Path):
        return write_lines(source, out, settings, say=progress.say)
    write_names = None if not isinstance(source, DocumentTexts) else partial(_write_names, source, out, progress.say)
    try:
        if to_folder:
            from opencse.bulk.folders import encode_folder

            written = encode_folder(
                source,
                out,
                settings,
                file_format=file_format,
                shard_rows=shard_rows,
                processes=processes,
                engine=engine,
                progress=Counted(progress, "encoding"),
                say=progress.say,
            )
        else:
            return encode_file(
                source,
                out,
                settings,
                before_finish=write_names,
                progress=Counted(progress, "encoding"),
                say=progress.say,
            )
        if write_names is not None:
            write_names(written.rows)
        return written
    except KeyboardInterrupt:
        raise InterruptedRunError("stopped; the same command continues from here") from None
    finally:
        progress.finish()


def _write_names(source: DocumentTexts, out: str | Path, say: Say, rows: int) -> None:
    """Writes the document and the text of each of ``rows`` vectors in ``out``, and reports it."""
    from opencse.bulk.streaming import sentences_file, write_sentences

    file = sentences_file(Path(out))
    write_sentences(source, file, rows)
    say(f"sentences  {file}: the id of the document and the text of each vector")


def _is_folder(out: str | Path) -> bool:
    """Whether ``out`` names a folder: it exists, or its name has no suffix of a file.

    Raises:
        UserError: for a file of another kind than ``.npy``.
    """
    from opencse.bulk.streaming import SUFFIX

    path = Path(out)
    if path.suffix == SUFFIX:
        return False
    if not path.is_dir() and re.fullmatch(r"\.[A-Za-z][A-Za-z0-9]{0,6}", path.suffix):
        raise UserError(
            f"{out}: a single file of vectors has the suffix {SUFFIX}; choose such a name, or for many files name a "
            "folder (without a suffix)"
        )
    return True
