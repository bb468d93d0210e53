"""Encoders in other forms: `export_onnx`, a graph for onnxruntime, and `export_static`, a table of word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from opencse.api.models import Model, name_of, open_encoder
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import require_packages
from opencse.errors import UserError, plain_failures
from opencse.evaluation import ScoredPairs, read_scored_pairs
from opencse.evaluation.transforms import sample_texts
from opencse.export.distil import Distilled, DistilSettings, distil
from opencse.export.onnx_folder import OnnxExport, write_onnx
from opencse.export.quantized import FEWEST
from opencse.export.runtime import require_onnx
from opencse.foreign import checks_trust
from opencse.markdown import public_name
from opencse.outputs import paths_of, require_apart, require_empty
from opencse.progress import Progress, Silent
from opencse.runs.card import distilled_card
from opencse.text import sample
from opencse.text.given import Text, open_texts

_TEXTS = 500


@plain_failures
@checks_trust
def export_onnx(
    model: Model,
    out: str | Path,
    *,
    int8: bool = False,
    text: Text | None = None,
    pairs: str | Path | None = None,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    pooling: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> OnnxExport:
    """Exports an encoder as one ONNX graph, from token ids to L2-normalised vectors, checked against torch.

    The folder runs with onnxruntime, tokenizers and numpy alone; see docs/export.md.

    Args:
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`, which stays as it is.
        out: folder for ``model.onnx``, ``tokenizer.json`` and ``export.json``; a new or empty one.
        int8: write weights of 8 bits, and measure what that costs.
        text: texts to check the export on, and to measure int8 on: a file, a Hub data set id, a `Source`, or a list;
            500 of them are drawn. By default the built-in sample.
        pairs: file of graded pairs (score, sentence, sentence) to measure int8 on; by default the built-in sample's.
        columns: of a file; see `opencse.train`.
        split: of a Hub data set.
        pooling: replaces the model's own.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, a missing package, or a graph that gives other vectors than torch.
    """
    require_onnx("onnx", "onnxscript", "onnxruntime")
    folder, tell = Path(out), progress or Silent()
    require_apart(folder, read=paths_of(text, pairs), models=paths_of(model))
    require_empty(folder)
    texts = sample_texts(open_texts(sample.TRAIN if text is None else text, columns=columns, split=split), _TEXTS)
    graded = _graded(pairs, int8)
    if graded is not None and len(texts) < FEWEST:
        raise UserError(
            f"{len(texts)} different text{'s' * (len(texts) != 1)} to measure int8 on; at least {FEWEST} are needed: "
            "give another --text, or none for the built-in sample"
        )
    device = None if isinstance(model, SentenceEncoder) else "cpu"
    opened = open_encoder(model, tell, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    encoder = opened.twin().to("cpu").eval() if isinstance(model, SentenceEncoder) else opened
    done = write_onnx(encoder, folder, name=public_name(name_of(model)), texts=texts, pairs=graded, progress=tell)
    for line in done.int8.lines() if done.int8 else []:
        tell.say(line)
    tell.say(f"written    {done.megabytes:.1f} MB, {done.dimension} dimensions, texts up to {encoder.max_length} ids")
    return done


@plain_failures
@checks_trust
def export_static(
    model: Model,
    out: str | Path,
    *,
    corpus: Text | None = None,
    settings: DistilSettings | None = None,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Distilled:
    """Distils an encoder into a table of word vectors, which needs no network; see `opencse.export.distil`.

    opencse, sentence-transformers (as StaticEmbedding) and model2vec open the folder; `opencse.train` goes on from it.

    Args:
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`, which stays as it is.
        out: folder for the table; a new or empty one.
        corpus: texts of your domain: words are counted in them, and the table is fitted to the encoder's vectors of
            them. A file, a Hub data set id, a `Source`, or a list.
        settings: sizes and constants.
        columns: of a file; see `opencse.train`.
        split: of a Hub data set.
        pooling: replaces the model's own.
        device: where the encoder runs; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, or settings that do not fit the model.
    """
    folder, tell, chosen = Path(out), progress or Silent(), settings or DistilSettings()
    require_apart(folder, read=paths_of(corpus), models=paths_of(model))
    require_empty(folder)
    texts: list[str] = []
    if corpus is None and columns is not None:
        raise UserError("columns are of a corpus; give one too (--corpus), or leave them out")
    if corpus is not None:
        require_packages("fitting the table to a text", "train", "scipy")
        texts = sample_texts(open_texts(corpus, columns=columns, split=split), chosen.sentences)
    encoder = open_encoder(model, tell, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    if chosen.dimension is None or chosen.dimension > encoder.dimension:
        if "dimension" in chosen.model_fields_set and chosen.dimension is not None:
            raise UserError(
                f"dimension {chosen.dimension} is above the {encoder.dimension} of the model; give a smaller one"
            )
        chosen = chosen.model_copy(update={"dimension": encoder.dimension})
    made = distil(encoder, chosen, texts, tell)
    made.encoder.save(folder, card=distilled_card(name_of(model), made, chosen))
    if made.before is not None:
        tell.say(f"fitted     cosine to the encoder's vectors {made.before:.3f} before, {made.after:.3f} after")
    tell.say(
        f"table      {made.rows:,} rows of {made.encoder.dimension}, {made.words:,} of them whole words of the text"
    )
    return made


def _graded(pairs: str | Path | None, int8: bool) -> ScoredPairs | None:
    """What int8 is measured on; None where it is not asked for."""
    if not int8:
        if pairs is not None:
            raise UserError("graded pairs are for measuring int8; give --int8 too, or leave --pairs out")
        return None
    if pairs is None:
        return replace(read_scored_pairs(sample.TEST), name="the built-in sample's test pairs")
    return read_scored_pairs(Path(pairs))
