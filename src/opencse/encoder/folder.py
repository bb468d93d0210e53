"""The folder of an encoder: sentence-transformers' layout, read and written; transformers' folders, read."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from opencse.encoder.backbone import load_backbone, position_limit
from opencse.encoder.head import ACTIVATIONS, Dense
from opencse.encoder.locate import locate
from opencse.encoder.pooling import Pooling
from opencse.encoder.quiet import quiet_transformers
from opencse.errors import UserError, nearest
from opencse.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

E = TypeVar("E", bound="SentenceEncoder")

# Names in sentence-transformers' pooling configuration, old (one flag a mode) and new (pooling_mode).
_MODES = {"cls": Pooling.CLS, "mean": Pooling.MEAN, "max": Pooling.MAX, "lasttoken": Pooling.LAST_TOKEN}
_OLD_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_ACTIVATION_CLASSES = {name: f"torch.nn.modules.{_m}" for name, _m in {
    "tanh": "activation.Tanh", "identity": "linear.Identity", "relu": "activation.ReLU", "gelu": "activation.GELU",
}.items()}  # fmt: skip


def parse_pooling(name: str) -> Pooling:
    """The pooling called ``name``; a ``UserError`` lists them if there is none."""
    try:
        return Pooling(name)
    except ValueError:
        known = [p.value for p in Pooling]
        raise UserError(
            f"unknown pooling {name!r}{nearest(name, known)}; known: {', '.join(known)}"
        ) from None


def read_folder(
    cls: type[E],
    model: str | Path,
    *,
    pooling: str | Pooling | None,
    max_length: int | None,
    dropout: float | None,
) -> E:
    """See `SentenceEncoder.load`."""
    folder = locate(model)
    modules = _modules(folder)
    transformer = folder / modules["Transformer"][0] if modules else folder
    tokenizer = Tokenizer.load(transformer)
    backbone = load_backbone(transformer, dropout=dropout)
    sentence = _json(transformer / "sentence_bert_config.json")
    limit = position_limit(backbone, int(tokenizer.hf.model_max_length))
    length = max_length or sentence.get("max_seq_length") or limit
    if length > limit:
        raise UserError(f"{model}: max_length {length} is beyond the position table ({limit})")
    own = _pooling(folder, modules, int(backbone.config.num_hidden_layers)) if modules else Pooling.MEAN
    return cls(
        backbone,
        tokenizer,
        pooling=own if pooling is None else parse_pooling(pooling),
        max_length=int(length),
        dense=[_read_dense(folder / path) for path in modules.get("Dense", [])],
        normalize="Normalize" in modules,
        prompt=_default_prompt(folder),
        lower_case=bool(sentence.get("do_lower_case", False)),
    )


def has_own_pooling(model: str | Path) -> bool:
    """Whether the folder says how to pool (sentence-transformers' do, plain transformers' do not)."""
    return (locate(model) / "modules.json").is_file()


def _json(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return json.loads(path.read_text()) if path.is_file() else {}
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not valid JSON ({error.msg})") from None


def _modules(folder: Path) -> dict[str, list[str]]:
    """Module class name -> paths, in the order of modules.json; empty for a plain transformers folder."""
    known = ("Transformer", "WeightedLayerPooling", "Pooling", "Dense", "Normalize")
    modules: dict[str, list[str]] = {}
    for entry in _json(folder / "modules.json") or []:
        name = str(entry["type"]).rsplit(".", 1)[-1]
        if name not in known:
            raise UserError(
                f"{folder}: module {entry['type']} is not supported here; supported: {', '.join(known)}"
            )
        if list(modules) and known.index(name) < max(known.index(n) for n in modules):
            raise UserError(
                f"{folder}: modules in an order that is not supported here ({name} after {list(modules)[-1]})"
            )
        modules.setdefault(name, []).append(str(entry["path"]))
    if modules and ("Transformer" not in modules or "Pooling" not in modules):
        raise UserError(f"{folder}: modules.json lacks a Transformer or a Pooling module")
    return modules


def _pooling(folder: Path, modules: dict[str, list[str]], depth: int) -> Pooling:
    config = _json(folder / modules["Pooling"][0] / "config.json")
    mode = config.get("pooling_mode") or [name for flag, name in _OLD_FLAGS.items() if config.get(flag)]
    modes = [mode] if isinstance(mode, str) else list(mode)
    if len(modes) != 1 or modes[0] not in _MODES:
        raise UserError(
            f"{folder}: pooling {' + '.join(modes) or 'none'} is not supported here; use --pooling"
        )
    pooling = _MODES[modes[0]]
    if "WeightedLayerPooling" not in modules:
        return pooling
    from safetensors.torch import load_file

    layers = folder / modules["WeightedLayerPooling"][0]
    start = int(_json(layers / "config.json")["layer_start"])
    weights = load_file(layers / "model.safetensors")["layer_weights"]
    chosen = tuple(start + i for i, w in enumerate(weights.tolist()) if w)
    for candidate in (Pooling.FIRST_LAST_0, Pooling.FIRST_LAST_1, Pooling.TOP2):
        if (
            pooling is Pooling.MEAN
            and chosen == candidate.layers(depth)
            and len(set(weights.tolist()) - {0.0}) == 1
        ):
            return candidate
    raise UserError(f"{folder}: this weighting of layers is not supported here; use --pooling")


def _read_dense(path: Path) -> Dense:
    from safetensors.torch import load_file

    config = _json(path / "config.json")
    names = {cls.__name__: name for name, cls in ACTIVATIONS.items()}
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rsplit(".", 1)[-1]
    if activation not in names or config.get("use_residual"):
        raise UserError(f"{path}: a Dense module with {activation} or a residual is not supported here")
    if not (path / "model.safetensors").is_file():
        raise UserError(f"{path}: model.safetensors is missing")
    dense = Dense(
        config["in_features"], config["out_features"], names[activation], bias=config.get("bias", True)
    )
    dense.load_state_dict({k: v.float() for k, v in load_file(path / "model.safetensors").items()})
    return dense


def _default_prompt(folder: Path) -> str:
    config = _json(folder / "config_sentence_transformers.json")
    name = config.get("default_prompt_name")
    return "" if name is None else str(config["prompts"][name])


def write_folder(encoder: SentenceEncoder, folder: Path, *, card: str, dtype: torch.dtype) -> None:
    """See `SentenceEncoder.save`. Written beside the target first and moved in, ``modules.json`` last."""
    from safetensors import SafetensorError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as name:
            _write(encoder, Path(name), card, dtype)
            _move_in(Path(name), folder)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder}: the model cannot be written ({error})") from None


def _move_in(written: Path, folder: Path) -> None:
    for entry in sorted(written.iterdir(), key=lambda e: e.name == "modules.json"):
        target = folder / entry.name
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(entry, target)


def _write(encoder: SentenceEncoder, folder: Path, card: str, dtype: torch.dtype) -> None:
    from safetensors.torch import save_file

    layers = encoder.pooling.layers(encoder.depth)
    hidden = int(encoder.backbone.config.hidden_size)
    with quiet_transformers():
        state = {k: v.detach().to(dtype).contiguous().cpu() for k, v in encoder.backbone.state_dict().items()}
        encoder.backbone.save_pretrained(folder, state_dict=state)
        encoder.tokenizer.hf.save_pretrained(folder)
    # Half-precision weights still compute in float32 wherever the folder is opened.
    config = _json(folder / "config.json") | {"dtype": "float32"}
    modules = [("Transformer", "")]
    if len(layers) > 1:
        config["output_hidden_states"] = True
        modules.append(("WeightedLayerPooling", "1_WeightedLayerPooling"))
        start = 1 if encoder.pooling is Pooling.FIRST_LAST_1 else 0
        weights = torch.tensor([1.0 if layer in layers else 0.0 for layer in range(start, encoder.depth + 1)])
        _put(folder / modules[-1][1] / "config.json",
             {"word_embedding_dimension": hidden, "layer_start": start, "num_hidden_layers": encoder.depth})  # fmt: skip
        save_file({"layer_weights": weights}, folder / modules[-1][1] / "model.safetensors")
    _put(folder / "config.json", config)
    _put(folder / "sentence_bert_config.json",
         {"max_seq_length": encoder.max_length, "do_lower_case": encoder.lower_case})  # fmt: skip
    modules.append(("Pooling", f"{len(modules)}_Pooling"))
    base = Pooling.MEAN if len(layers) > 1 else encoder.pooling
    flags = {flag: _MODES.get(name) is base for flag, name in _OLD_FLAGS.items()}
    _put(folder / modules[-1][1] / "config.json", {"word_embedding_dimension": hidden} | flags)
    for dense in encoder.dense:
        modules.append(("Dense", f"{len(modules)}_Dense"))
        linear = dense.linear
        _put(folder / modules[-1][1] / "config.json",
             {"in_features": linear.in_features, "out_features": linear.out_features, "bias": linear.bias is not None,
              "activation_function": _ACTIVATION_CLASSES[dense.activation_name]})  # fmt: skip
        save_file({k: v.detach().to(dtype).contiguous().cpu() for k, v in dense.state_dict().items()},
                  folder / modules[-1][1] / "model.safetensors")  # fmt: skip
    if encoder.normalize:
        modules.append(("Normalize", f"{len(modules)}_Normalize"))
        (folder / modules[-1][1]).mkdir()
    prompts = (
        {"default_prompt_name": "default", "prompts": {"default": encoder.prompt}} if encoder.prompt else {}
    )
    _put(folder / "config_sentence_transformers.json",
         {"__version__": {}, "prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"} | prompts)  # fmt: skip
    (folder / "README.md").write_text(card or "Sentence encoder written by OpenCSE.\n", encoding="utf-8")
    listing = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (name, path) in enumerate(modules)
    ]
    _put(folder / "modules.json", listing)


def _put(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
