"""Exports encoders: as a graph for onnxruntime, a table of word vectors, with merged adapters, to the Hub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.commands.declared import Typed, command, needs
from opencse.commands.shared import Columns, Device, Encoder, OutFolder, Pooling, Reporter, Split, TrustRemoteCode
from opencse.errors import UserError
from opencse.markdown import public_name
from opencse.numerals import number_of
from opencse.progress import SILENT

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation import ScoredPairs
    from opencse.export.distil import Distilled, DistilSettings
    from opencse.export.onnx_folder import OnnxExport
    from opencse.text.given import Text

_TEXTS = 500


@command
@needs(pairs="int8")
def export_onnx(
    model: Encoder,
    out: OutFolder,
    *,
    int8: bool = False,
    text: Annotated[
        Text | None, Typed("Your own texts, to check the graph on; by default the built-in sample.")
    ] = None,
    pairs: Annotated[str | Path | None, Typed(file=True)] = None,
    columns: Columns = None,
    split: Split = None,
    pooling: Pooling = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> OnnxExport:
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
        int8: Write 8-bit weights too, and print what they lose.
        text: your own texts, to check the graph on; 500 of them are drawn. By default the built-in sample.
        pairs: Graded pairs (score, sentence, sentence) to measure the loss of --int8 on.

    Raises:
        UserError: for bad input, a missing package, or a graph that gives other vectors than torch.
    """
    from opencse.commands.opening import name_of, open_encoder
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation.transforms import sample_texts
    from opencse.export.onnx_folder import FEWEST, write_onnx
    from opencse.export.runtime import require_onnx
    from opencse.outputs import paths_of, require_apart, require_empty
    from opencse.text import sample
    from opencse.text.given import open_texts

    require_onnx("onnx", "onnxscript", "onnxruntime")
    folder = Path(out)
    require_apart(folder, read=paths_of(text, pairs), models=paths_of(model))
    require_empty(folder)
    source = open_texts(sample.TRAIN if text is None else text, columns=columns, split=split)
    texts = sample_texts(source, _TEXTS)
    graded = _graded(pairs, int8)
    if graded is not None and len(texts) < FEWEST:
        raise UserError(
            f"{number_of(len(texts), 'different text')} to measure int8 on; at least {FEWEST} are needed: "
            "give another --text, or none for the built-in sample"
        )
    loaded = open_encoder(
        model,
        progress,
        pooling=pooling,
        device=None if isinstance(model, SentenceEncoder) else "cpu",
        trust_remote_code=trust_remote_code,
    )
    encoder = loaded.twin().to("cpu").eval() if isinstance(model, SentenceEncoder) else loaded
    done = write_onnx(
        encoder,
        folder,
        name=public_name(name_of(model)),
        texts=texts,
        pairs=graded,
        progress=progress,
    )
    for line in done.int8.lines() if done.int8 else []:
        progress.say(line)
    progress.say(
        f"written    {done.megabytes:.1f} MB, {done.dimension} dimensions, texts up to {encoder.max_length} ids"
    )
    return done


@command
@needs(columns="corpus", split="corpus")
def export_static(
    model: Encoder,
    out: OutFolder,
    *,
    corpus: Text | None = None,
    settings: Annotated[DistilSettings | None, Typed(hidden=True)] = None,
    columns: Columns = None,
    split: Split = None,
    pooling: Pooling = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> Distilled:
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
        corpus: Texts of your domain, to count words and fit the table on; by default none.
        settings: sizes and constants.

    Raises:
        UserError: for bad input, or settings that do not fit the model.
    """
    from opencse.commands.opening import name_of, open_encoder
    from opencse.environment import require_packages
    from opencse.evaluation.transforms import sample_texts
    from opencse.export.cards import distilled_card
    from opencse.export.distil import DistilSettings, distil
    from opencse.modules.similarity import require_dimensions
    from opencse.outputs import paths_of, require_apart, require_empty
    from opencse.text.given import open_texts

    folder = Path(out)
    settings = settings or DistilSettings()
    require_apart(folder, read=paths_of(corpus), models=paths_of(model))
    require_empty(folder)
    texts: list[str] = []
    if corpus is not None:
        require_packages("fitting the table to a text", "train", "scipy")
        source = open_texts(corpus, columns=columns, split=split)
        texts = sample_texts(source, settings.sentences)
    encoder = open_encoder(model, progress, pooling, device, trust_remote_code)
    if settings.dimension is None or settings.dimension > encoder.dimension:
        if "dimension" in settings.model_fields_set:
            require_dimensions(settings.dimension, encoder.dimension, name_of(model))
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
    from opencse.evaluation import read_scored_pairs
    from opencse.text import sample

    if not int8:
        return None
    if pairs is None:
        return replace(read_scored_pairs(sample.TEST), name="the built-in sample's test pairs")
    return read_scored_pairs(Path(pairs))


@command
def merge(
    adapters: str | Path,
    out: OutFolder,
    *,
    progress: Reporter = SILENT,
) -> SentenceEncoder:
    """Merges adapters (LoRA, in peft's layout) into the model they belong to; the folder opens anywhere.

    Each adapted weight W becomes W + (alpha / r) B A (Hu et al. 2021, arXiv:2106.09685, equation 3).

    Example:
        >>> import opencse
        >>> encoder = opencse.merge("my-run/adapter", "merged")  # doctest: +SKIP

    Args:
        adapters: a folder with adapter_config.json (``adapter/`` of a run with ``encoder.lora``), or a Hub id.
        out: folder for the merged encoder; a new or empty one.

    Raises:
        UserError: where there are no adapters, their model is not found, they do not fit, or peft is not installed.
    """
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.export.cards import merged_card
    from opencse.model_folder.description import describe
    from opencse.outputs import paths_of, require_apart, require_empty

    folder = Path(out)
    require_apart(folder, models=paths_of(adapters))
    require_empty(folder)
    adapter = describe(adapters).adapters
    if adapter is None:
        raise UserError(f"{adapters}: holds no adapters (adapter_config.json); it is a complete model already")
    encoder = SentenceEncoder.load(adapters, device="cpu")
    encoder.save(folder, card=merged_card(str(adapters), adapter.base, encoder))
    progress.say(f"merged     {adapters} with {adapter.base}")
    return encoder


@command
def push(
    folder: str | Path,
    repo_id: str,
    *,
    token: Annotated[str | None, Typed(hidden=True)] = None,
    private: Annotated[
        bool | None, Typed("Who may see a new repository; by default your account's setting.", ("--private/--public",))
    ] = None,
    exist_ok: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    commit_message: Annotated[str | None, Typed(flags=("--message",), quoted=True)] = None,
    progress: Reporter = SILENT,
) -> str:
    """Puts an encoder's folder on the Hub with its card, in one commit.

    The model's files go there; the other files of a run (``run.json``, logs, the report, ``last/``) stay here.

    Example:
        >>> import opencse
        >>> opencse.push("my-model", "my-account/my-model")  # doctest: +SKIP
        'https://huggingface.co/my-account/my-model/commit/...'

    Args:
        folder: Folder of an encoder, a run, or adapters.
        repo_id: name on the Hub: owner/name, or a name under your own account.
        token: token with write access; by default the token of ``hf auth login`` or ``HF_TOKEN``.
        private: make the repository private; by default your account's setting.
        exist_ok: Add a version if the repository exists.
        revision: Branch to write to, created if needed; by default main.
        create_pr: Open a pull request instead of writing to the branch.
        commit_message: Message of the commit.

    Returns:
        The address of the commit, or of the pull request.

    Raises:
        UserError: in one line, for a folder without a model, a wrong name, no token, no network, or what the Hub
            refuses.
    """
    from opencse.files import require_folder
    from opencse.model_folder.locate import locate, upload

    path = Path(folder)
    require_folder(path, "give the folder of an encoder")
    locate(path)
    progress.say(f"sending    {folder} to {repo_id}")
    return upload(
        path,
        repo_id,
        token=token,
        private=private,
        exist_ok=exist_ok,
        revision=revision,
        create_pr=create_pr,
        commit_message=commit_message,
    )
