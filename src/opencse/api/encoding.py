"""Turns texts into vectors: in memory, in a file, in a folder of files, or as lines of JSON."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TextIO, Unpack, overload

from opencse.api.declaring import defaults_of, public
from opencse.api.models import Model, encoded, load_for_vectors
from opencse.api.options.encoding import EncodeOptions, InMemoryOptions
from opencse.arrays import Embeddings
from opencse.bulk.encoding_settings import EncodingSettings
from opencse.bulk.forms import Form
from opencse.bulk.sentences import require_sentences_file, sentences_file, write_sentences
from opencse.bulk.streaming import SUFFIX, EncodedFile, encode_file, write_lines
from opencse.encoder.measured_precision import measured_precision, sample_of
from opencse.encoder.text_encoder import TextEncoder
from opencse.engines.choice import require_engine
from opencse.errors import InterruptedRunError, UserError
from opencse.kernels.precision import PrecisionName
from opencse.modules.prompts import Role
from opencse.outputs import paths_of, require_absent, require_apart
from opencse.progress import Counted, Say, Silent
from opencse.text.files.kinds import how_read
from opencse.text.given import DocumentTexts, FileTexts, GivenTexts, Text, TextSource, open_texts
from opencse.text.left_out_rows import say_left_out_rows


@overload
def encode(model: Model, text: Text, out: None = None, **options: Unpack[InMemoryOptions]) -> Embeddings: ...


@overload
def encode(model: Model, text: Text, out: str | Path | TextIO, **options: Unpack[EncodeOptions]) -> EncodedFile: ...


@public
def encode(
    model: Model, text: Text, out: str | Path | TextIO | None = None, **options: Unpack[EncodeOptions]
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
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`.
        text: a file, a Hub data set id, a `Source`, or a list of texts. In rows of several texts the first is read.
            Vector i belongs to line i + 1 of a text file; blank lines are refused, except at its end.
        out: ``.npy`` file to write, a folder for files of ``shard_rows`` vectors each and a manifest, or an open text
            file for JSON lines (``text``, ``vector``). A list of texts cannot be written. The texts of documents are
            their sentences: ``sentences.jsonl`` in the folder, or ``NAME.sentences.jsonl`` next to the file, has the
            ``id`` of the document and the ``text`` of each vector, and so have JSON lines.
        **options: see `EncodeOptions`; without ``out`` see `InMemoryOptions`.

    Returns:
        (n, dimension) float32, or what was written to ``out``.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C while a file is written.
    """
    progress = options["progress"] or Silent()
    require_engine(options["engine"])
    to_folder = isinstance(out, str | Path) and _is_folder(out)
    if not to_folder:
        _require_no_folder_options(options)
    if isinstance(out, str | Path):
        require_apart(out, read=paths_of(text), models=paths_of(model))
        if not to_folder:
            require_absent(out, overwrite=options["overwrite"])
    source = open_texts(
        text,
        columns=None if options["column"] is None else [options["column"]],
        fields=options["fields"],
        **how_read(options),
        say=progress.say,
    )
    if out is not None and not isinstance(out, str | Path):  # elsewhere vector i is of row i
        say_left_out_rows(source, progress.say)
    form = Form(options["numbers"], options["dimensions"], options["normalize"])
    if out is None:
        if options["numbers"] != "float32":
            raise UserError("numbers are of vectors that are written; name out, or use opencse.bulk.forms.Form")
        return _in_memory(model, source, form, options)
    if isinstance(source, GivenTexts):
        raise UserError(
            f"{source.name}: only the vectors of a file are written; index a folder (opencse index build), and for a "
            "list of texts save the vectors that are returned (numpy.save)"
        )
    if isinstance(out, str | Path) and not to_folder:
        require_sentences_file(
            source, Path(out), read=paths_of(text), models=paths_of(model), overwrite=options["overwrite"]
        )
    encoder_or_name, precision = model, options["precision"]
    if precision == "auto" or isinstance(model, TextEncoder) or not isinstance(out, str | Path):
        encoder = load_for_vectors(model, options)
        precision = _precision(encoder, source, options)
        encoder_or_name = model if to_folder else encoder  # of a folder each process opens its own
    settings = EncodingSettings(
        model=encoder_or_name,
        form=form,
        prompt_name=options["prompt_name"],
        prompt=options["prompt"],
        precision=precision,
        pooling=options["pooling"],
        device=options["device"],
        trust_remote_code=options["trust_remote_code"],
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
                file_format=options["file_format"],
                shard_rows=options["shard_rows"],
                processes=options["processes"],
                engine=options["engine"],
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
    file = sentences_file(Path(out))
    write_sentences(source, file, rows)
    say(f"sentences  {file}: the id of the document and the text of each vector")


def _in_memory(model: Model, source: TextSource, form: Form, options: InMemoryOptions) -> Embeddings:
    encoder = load_for_vectors(model, options)
    form.require(encoder.dimension)
    if not isinstance(source, GivenTexts):
        source.count_rows()
    first_texts = [row[0] for row in source.read().rows]
    prompt = encoder.prompts.requested(Role.PLAIN, options["prompt_name"], options["prompt"])
    progress = options["progress"] or Silent()
    measured = measured_precision(options["precision"], encoder, sample_of(first_texts), prompt)
    if options["precision"] == "auto":
        progress.say(measured.line)
    return form.of(encoded(encoder, first_texts, "encoding", progress, prompt=prompt, precision=measured.name))


def _precision(encoder: TextEncoder, source: FileTexts, options: EncodeOptions) -> PrecisionName:
    """The precision of the vectors; for ``auto`` it is measured on texts of ``source``, and reported."""
    if options["precision"] != "auto":
        return options["precision"]
    texts = sample_of(texts[0] for _, texts in source.examples())
    prompt = encoder.prompts.requested(Role.PLAIN, options["prompt_name"], options["prompt"])
    measured = measured_precision("auto", encoder, texts, prompt)
    (options["progress"] or Silent()).say(measured.line)
    return measured.name


def _require_no_folder_options(options: EncodeOptions) -> None:
    """Refuses options that only have a meaning for a folder of vectors."""
    if options["engine"] != "local":
        raise UserError(f"--engine {options['engine']} needs --out FOLDER")
    defaults = defaults_of(EncodeOptions)
    several = options["processes"] not in (None, 1)
    if several or any(options[name] != defaults[name] for name in ("file_format", "shard_rows")):
        raise UserError("--format, --shard-rows and --processes need --out FOLDER")


def _is_folder(out: str | Path) -> bool:
    """Whether ``out`` names a folder: it exists, or its name has no suffix of a file.

    Raises:
        UserError: for a file of another kind than ``.npy``.
    """
    path = Path(out)
    if path.suffix == SUFFIX:
        return False
    if not path.is_dir() and re.fullmatch(r"\.[A-Za-z][A-Za-z0-9]{0,6}", path.suffix):
        raise UserError(
            f"{out}: a single file of vectors has the suffix {SUFFIX}; choose such a name, or for many files name a "
            "folder (without a suffix)"
        )
    return True
