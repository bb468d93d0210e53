"""Exports encoders: as a graph for onnxruntime, or as a table of word vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Unpack

from opencse.api.cards import distilled_card
from opencse.api.declaring import public
from opencse.api.models import Model, load_encoder, name_of, open_encoder
from opencse.api.options.exporting import OnnxOptions, StaticTableOptions
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import hash_model
from opencse.environment import require_packages
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, read_scored_pairs
from opencse.evaluation.transforms import sample_texts
from opencse.export.distil import Distilled, DistilSettings, distil
from opencse.export.onnx_folder import OnnxExport, write_onnx
from opencse.export.quantized import FEWEST
from opencse.export.runtime import require_onnx
from opencse.markdown import public_name
from opencse.numerals import number_of
from opencse.outputs import paths_of, require_apart, require_empty
from opencse.progress import Silent
from opencse.text import sample
from opencse.text.given import open_texts

_TEXTS = 500


@public
def export_onnx(model: Model, out: str | Path, **options: Unpack[OnnxOptions]) -> OnnxExport:
    """Exports an encoder as one ONNX graph, from token ids to L2-normalised vectors, checked against torch.

    The folder runs with onnxruntime, tokenizers and numpy alone; see docs/export.md.

    Example:
        >>> import opencse
        >>> done = opencse.export_onnx("opencse-mini", "exported")  # doctest: +SKIP
        >>> done.dimension  # doctest: +SKIP
        448

    Args:
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`, which stays as it is.
        out: folder for ``model.onnx``, ``tokenizer.json`` and ``export.json``; a new or empty one.
        **options: see `OnnxOptions`.

    Raises:
        UserError: for bad input, a missing package, or a graph that gives other vectors than torch.
    """
    require_onnx("onnx", "onnxscript", "onnxruntime")
    folder, progress = Path(out), options["progress"] or Silent()
    text, pairs = options["text"], options["pairs"]
    require_apart(folder, read=paths_of(text, pairs), models=paths_of(model))
    require_empty(folder)
    source = open_texts(sample.TRAIN if text is None else text, columns=options["columns"], split=options["split"])
    texts = sample_texts(source, _TEXTS)
    graded = _graded(pairs, options["int8"])
    if graded is not None and len(texts) < FEWEST:
        raise UserError(
            f"{number_of(len(texts), 'different text')} to measure int8 on; at least {FEWEST} are needed: "
            "give another --text, or none for the built-in sample"
        )
    loaded = open_encoder(
        model,
        progress,
        pooling=options["pooling"],
        device=None if isinstance(model, SentenceEncoder) else "cpu",
        trust_remote_code=options["trust_remote_code"],
    )
    encoder = loaded.twin().to("cpu").eval() if isinstance(model, SentenceEncoder) else loaded
    is_unchanged = isinstance(model, str | Path) and options["pooling"] is None
    done = write_onnx(
        encoder,
        folder,
        name=public_name(name_of(model)),
        texts=texts,
        pairs=graded,
        progress=progress,
        files=hash_model(model) if is_unchanged and isinstance(model, str | Path) else None,
    )
    for line in done.int8.lines() if done.int8 else []:
        progress.say(line)
    progress.say(
        f"written    {done.megabytes:.1f} MB, {done.dimension} dimensions, texts up to {encoder.max_length} ids"
    )
    return done


@public
def export_static(model: Model, out: str | Path, **options: Unpack[StaticTableOptions]) -> Distilled:
    """Distils an encoder into a table of word vectors, which needs no neural network; see `opencse.export.distil`.

    opencse, sentence-transformers (StaticEmbedding) and model2vec open the folder; `opencse.train` continues from it.

    Example:
        >>> import opencse
        >>> table = opencse.export_static("opencse-mini", "table")  # doctest: +SKIP
        >>> table.rows  # doctest: +SKIP
        16384

    Args:
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`, which stays as it is.
        out: folder for the table; a new or empty one.
        **options: see `StaticTableOptions`.

    Raises:
        UserError: for bad input, or settings that do not fit the model.
    """
    folder, progress = Path(out), options["progress"] or Silent()
    corpus, settings = options["corpus"], options["settings"] or DistilSettings()
    require_apart(folder, read=paths_of(corpus), models=paths_of(model))
    require_empty(folder)
    texts: list[str] = []
    if corpus is None and options["columns"] is not None:
        raise UserError("--columns needs --corpus; name one, or leave --columns out")
    if corpus is not None:
        require_packages("fitting the table to a text", "train", "scipy")
        source = open_texts(corpus, columns=options["columns"], split=options["split"])
        texts = sample_texts(source, settings.sentences)
    encoder = load_encoder(model, options)
    if settings.dimension is None or settings.dimension > encoder.dimension:
        if "dimension" in settings.model_fields_set and settings.dimension is not None:
            raise UserError(
                f"dimension {settings.dimension} is above the {encoder.dimension} of the model; give a smaller one"
            )
        settings = settings.model_copy(update={"dimension": encoder.dimension})
    distilled = distil(encoder, settings, texts, progress)
    distilled.encoder.save(folder, card=distilled_card(name_of(model), distilled, settings))
    if distilled.before is not None:
        progress.say(
            f"fitted     cosine to the encoder's vectors {distilled.before:.3f} before, {distilled.after:.3f} after"
        )
    progress.say(
        f"table      {number_of(distilled.rows, 'row')} of {distilled.encoder.dimension}, {distilled.words:,} of them "
        "whole words of the text"
    )
    return distilled


def _graded(pairs: str | Path | None, int8: bool) -> ScoredPairs | None:
    """The pairs that int8 is measured on; None without int8."""
    if not int8:
        if pairs is not None:
            raise UserError("--pairs needs --int8, whose loss is measured on them; add --int8, or leave --pairs out")
        return None
    if pairs is None:
        return replace(read_scored_pairs(sample.TEST), name="the built-in sample's test pairs")
    return read_scored_pairs(Path(pairs))
