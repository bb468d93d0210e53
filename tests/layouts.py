"""Folders as real models have them: their configuration files, with small random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

HIDDEN, VOCABULARY = 32, 400
SIZES: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
ST = "sentence_transformers.models."


@dataclass(frozen=True)
class Layout:
    """One kind of model folder.

    Attributes:
        like: real models that have it.
        backbone: makes the transformers model.
        tokens: which tokenizer, see `write_tokenizer`.
        modules: after the Transformer module, by name with their configuration.
        prompts: of config_sentence_transformers.json.
        similarity: of the same file.
        sentence: sentence_bert_config.json.
        root: folder of the Transformer module.
        change: what is changed in the folder at the end.
    """

    like: str
    backbone: Callable[[], nn.Module]
    tokens: str = "bert"
    modules: Sequence[tuple[str, Mapping[str, Any]]] = (("Pooling", {"pooling_mode_mean_tokens": True}),)
    prompts: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None
    similarity: str | None = None
    sentence: Mapping[str, Any] = field(default_factory=lambda: {"max_seq_length": 64, "do_lower_case": False})
    root: str = ""
    change: Callable[[Path], None] | None = None


def write(layout: Layout, folder: Path) -> Path:
    """Writes the folder, as sentence-transformers writes those on the Hub."""
    root = folder / layout.root
    root.mkdir(parents=True)
    torch.manual_seed(len(layout.like))
    model = layout.backbone()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(0, 0.3)
    model.save_pretrained(root)  # type: ignore[operator]
    write_tokenizer(layout.tokens, root)
    (root / "sentence_bert_config.json").write_text(json.dumps(dict(layout.sentence)))
    listing = [{"idx": 0, "name": "0", "path": layout.root, "type": f"{ST}Transformer"}]
    for number, (name, config) in enumerate(layout.modules, start=1):
        path = f"{number}_{name}"
        listing.append({"idx": number, "name": str(number), "path": path, "type": ST + name})
        write_module(name, dict(config), folder / path)
    (folder / "modules.json").write_text(json.dumps(listing))
    stated: dict[str, Any] = {"__version__": {"sentence_transformers": "3.3.1"}, "prompts": dict(layout.prompts)}
    stated |= {"default_prompt_name": layout.default, "similarity_fn_name": layout.similarity}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(stated))
    if layout.change is not None:
        layout.change(folder)
    return folder


def write_module(name: str, config: dict[str, Any], path: Path) -> None:
    """The folder of one module, with random weights of the sizes that its configuration says."""
    path.mkdir()
    if name == "Normalize":
        return
    if name == "Pooling":
        names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
        config = {"word_embedding_dimension": HIDDEN, **{f"pooling_mode_{one}": False for one in names}, **config}
    if name == "Dense":
        size = config["out_features"], config["in_features"]
        state = {"linear.weight": torch.randn(size) / 4}
        if config.get("bias", True):
            state["linear.bias"] = torch.randn(size[0]) / 4
        if config.get("use_residual") and size[0] != size[1]:
            state["residual.weight"] = torch.randn(size) / 4
        save_file(state, path / "model.safetensors")
    if name == "LayerNorm":
        width = config["dimension"]
        save_file({"norm.weight": torch.rand(width) + 0.5, "norm.bias": torch.randn(width)}, path / "model.safetensors")
    if name == "WordWeights":
        words = [f"w{n}" for n in range(VOCABULARY)]
        weights = {word: float(weight) for word, weight in zip(words, torch.rand(VOCABULARY), strict=True)}
        config = {"vocab": words, "word_weights": weights, "unknown_word_weight": 1}
        stored = torch.tensor(list(weights.values())).unsqueeze(1)
        save_file({"emb_layer.weight": stored}, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config))


def write_tokenizer(kind: str, folder: Path) -> None:
    """A small tokenizer with the special tokens of its family.

    ``bert``: [CLS] A [SEP]; ``roberta``: <s> A </s>; ``qwen``: A <|endoftext|>, padding on the left.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    text = [
        "the kettle boils snow fell on a roof dog barks at night train is late again query passage search bread " * 4
    ]
    if kind == "bert":
        names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
        backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        backend.normalizer = normalizers.BertNormalizer(lowercase=True)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer(
            vocab_size=VOCABULARY, special_tokens=list(names.values()), show_progress=False
        )
        around = ("[CLS] $A [SEP]", ["[CLS]", "[SEP]"])
    else:
        first = {"roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], "qwen": ["<|endoftext|>", "<|im_end|>"]}[kind]
        names = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>", "eos": "</s>"}
        names = {"pad": "<|endoftext|>", "eos": "<|im_end|>"} if kind == "qwen" else names
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=kind == "roberta")
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=first,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )
        around = ("$A <|endoftext|>", ["<|endoftext|>"]) if kind == "qwen" else ("<s> $A </s>", ["<s>", "</s>"])
    backend.train_from_iterator(text, trainer)
    template, special = around
    backend.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(one, backend.token_to_id(one)) for one in special]
    )
    side = "left" if kind == "qwen" else "right"
    given = {f"{key}_token": value for key, value in names.items()}
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend, padding_side=side, model_max_length=64, **given
    ).save_pretrained(folder)


def bert(**more: Any) -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **SIZES, **more))


def xlm_roberta() -> nn.Module:
    from transformers import XLMRobertaConfig, XLMRobertaModel

    sizes = {**SIZES, "pad_token_id": 1, "type_vocab_size": 1}
    return XLMRobertaModel(XLMRobertaConfig(vocab_size=VOCABULARY, max_position_embeddings=66, **sizes))


def mpnet() -> nn.Module:
    from transformers import MPNetConfig, MPNetModel

    return MPNetModel(MPNetConfig(vocab_size=VOCABULARY, max_position_embeddings=66, pad_token_id=1, **SIZES))


def distilbert() -> nn.Module:
    from transformers import DistilBertConfig, DistilBertModel

    sizes: dict[str, Any] = {"dim": HIDDEN, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
    return DistilBertModel(DistilBertConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **sizes))


def modernbert() -> nn.Module:
    from transformers import ModernBertConfig, ModernBertModel

    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    more: dict[str, Any] = {"local_attention": 16, "global_attn_every_n_layers": 2, **ids}
    return ModernBertModel(ModernBertConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **SIZES, **more))


def nomic_bert() -> nn.Module:
    from transformers import NomicBertConfig, NomicBertModel

    return NomicBertModel(NomicBertConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **SIZES))


def qwen3() -> nn.Module:
    from transformers import Qwen3Config, Qwen3Model

    more: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64}
    return Qwen3Model(Qwen3Config(vocab_size=VOCABULARY, **SIZES, **more))


def adapters(folder: Path) -> None:
    """Turns the folder's model into a base model with LoRA adapters on it."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModel

    base = folder.parent / f"{folder.name}-base"
    shutil.copytree(folder, base)
    made = get_peft_model(
        AutoModel.from_pretrained(base), LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)
    )
    made.peft_config["default"].base_model_name_or_path = str(base)
    made.save_pretrained(folder)
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()


def dense(activation: str, out: int = 24, **more: Any) -> tuple[str, Mapping[str, Any]]:
    config = {"in_features": HIDDEN, "out_features": out, "bias": True, "activation_function": activation}
    return "Dense", {**config, **more}


def pooling(mode: str, **more: Any) -> tuple[str, Mapping[str, Any]]:
    return "Pooling", {f"pooling_mode_{mode}": True, **more}


def entry(file: str, **values: Any) -> Callable[[Path], None]:
    """Changes some values of a JSON file of the folder."""

    def change(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


NORMALIZE: tuple[str, Mapping[str, Any]] = ("Normalize", {})
LAYER_NORM: tuple[str, Mapping[str, Any]] = ("LayerNorm", {"dimension": HIDDEN})
ACTIVATION = "torch.nn.modules.activation."
IDENTITY = "torch.nn.modules.linear.Identity"
BGE = {"query": "Represent this sentence for searching relevant passages: "}

READ: dict[str, Layout] = {
    "E5": Layout(
        "e5-small-v2",
        bert,
        modules=(pooling("mean_tokens"), NORMALIZE),
        prompts={"query": "query: ", "document": "passage: "},
    ),
    "multilingual E5": Layout(
        "multilingual-e5-small",
        xlm_roberta,
        "roberta",
        modules=(pooling("mean_tokens"), NORMALIZE),
        prompts={"query": "query: ", "passage": "passage: "},
    ),
    "BGE": Layout("bge-small-en-v1.5", bert, modules=(pooling("cls_token"), NORMALIZE), prompts=BGE),
    "GTE": Layout("gte-small", bert, modules=(pooling("mean_tokens"), NORMALIZE), similarity="cosine"),
    "GTE ModernBERT": Layout("gte-modernbert-base", modernbert, modules=(pooling("cls_token"),)),
    "nomic": Layout(
        "nomic-embed-text-v1.5",
        nomic_bert,
        modules=(pooling("mean_tokens"),),
        prompts={"query": "search_query: ", "document": "search_document: "},
    ),
    "arctic-embed": Layout(
        "snowflake-arctic-embed-xs", bert, modules=(pooling("cls_token"), NORMALIZE), prompts={"query": "search: "}
    ),
    "Qwen3-Embedding": Layout(
        "Qwen3-Embedding-0.6B",
        qwen3,
        "qwen",
        modules=(pooling("lasttoken", include_prompt=True), NORMALIZE),
        prompts={"query": "Instruct: search for passages that answer\nQuery:", "document": ""},
        similarity="cosine",
    ),
    "all-MiniLM": Layout("all-MiniLM-L6-v2", bert, modules=(pooling("mean_tokens"), NORMALIZE)),
    "mpnet": Layout("all-mpnet-base-v2", mpnet, "roberta", modules=(pooling("mean_tokens"), NORMALIZE)),
    "dot product": Layout("msmarco-distilbert-dot-v5", distilbert, modules=(pooling("mean_tokens"),), similarity="dot"),
    "default prompt": Layout(
        "models with a default prompt", bert, prompts={"any": "search: ", "query": "query: "}, default="any"
    ),
    "prompt left out of the mean": Layout(
        "models with include_prompt false",
        bert,
        modules=(pooling("mean_tokens", include_prompt=False), NORMALIZE),
        prompts=BGE,
    ),
    "maximum": Layout("models with max pooling", bert, modules=(pooling("max_tokens"),)),
    "lower-casing": Layout("old bert-base models", bert, sentence={"max_seq_length": 32, "do_lower_case": True}),
    "0_Transformer": Layout("folders before sentence-transformers 2", bert, root="0_Transformer"),
    "LoRA": Layout("adapters by peft", bert, modules=(pooling("cls_token"),), change=adapters),
    "Dense, tanh": Layout(
        "LaBSE, distiluse", bert, modules=(pooling("cls_token"), dense(ACTIVATION + "Tanh"), NORMALIZE)
    ),
    "Dense, identity": Layout("a linear head", bert, modules=(pooling("mean_tokens"), dense(IDENTITY))),
    "two Dense": Layout(
        "EmbeddingGemma's head",
        bert,
        modules=(
            pooling("mean_tokens"),
            dense(IDENTITY, 40, bias=False),
            dense(IDENTITY, 20, in_features=40, bias=False),
            NORMALIZE,
        ),
    ),
    **{
        f"Dense, {name}": Layout(
            f"a Dense head with {name}", bert, modules=(pooling("mean_tokens"), dense(ACTIVATION + name))
        )
        for name in ("ReLU", "GELU", "SiLU", "Sigmoid", "LeakyReLU", "ELU", "Mish")
    },
    "Dense, residual": Layout(
        "a residual head", bert, modules=(pooling("mean_tokens"), dense(IDENTITY, HIDDEN, use_residual=True))
    ),
    "Dense, projected residual": Layout(
        "a residual head of another size",
        bert,
        modules=(pooling("mean_tokens"), dense(ACTIVATION + "Tanh", use_residual=True)),
    ),
    "WordWeights": Layout("tokens weighed in the mean", bert, modules=(("WordWeights", {}), pooling("mean_tokens"))),
    **{
        f"WordWeights, {mode}": Layout(
            f"tokens weighed before pooling {mode}",
            bert,
            modules=(("WordWeights", {}), pooling(mode), dense(IDENTITY), NORMALIZE),  # of length one: sums are long
        )
        for mode in ("cls_token", "max_tokens", "lasttoken", "weightedmean_tokens", "mean_sqrt_len_tokens")
    },
    "weighted mean": Layout("SGPT", bert, modules=(pooling("weightedmean_tokens"),)),
    "mean by root of length": Layout(
        "models with mean_sqrt_len_tokens", bert, modules=(pooling("mean_sqrt_len_tokens"),)
    ),
    **{
        f"prompt left out of {mode}": Layout(
            f"include_prompt false with {mode}",
            bert,
            prompts={"query": "query: "},
            modules=(pooling(mode, include_prompt=False),),
        )
        for mode in ("weightedmean_tokens", "mean_sqrt_len_tokens", "max_tokens", "lasttoken")
    },
    "LayerNorm": Layout("a normalised mean", bert, modules=(pooling("mean_tokens"), LAYER_NORM)),
    "Dropout": Layout(
        "a classifier's encoder", bert, modules=(pooling("mean_tokens"), ("Dropout", {"dropout": 0.5}), dense(IDENTITY))
    ),
    "Normalize before Dense": Layout(
        "a map of unit vectors",
        bert,
        modules=(pooling("mean_tokens"), NORMALIZE, dense(IDENTITY), ("LayerNorm", {"dimension": 24}), NORMALIZE),
    ),
}
"""Every layout that is read."""

REFUSED: dict[str, tuple[Layout, str]] = {
    "truncate_dim": (
        Layout("truncate_dim", bert, change=entry("config_sentence_transformers.json", truncate_dim=8)),
        "truncate_dim",
    ),
    "two poolings": (
        Layout("both", bert, modules=(pooling("mean_tokens", pooling_mode_max_tokens=True),)),
        r"pooling max \+ mean is not",
    ),
    "Dense before pooling": (
        Layout("order", bert, modules=(dense(IDENTITY), pooling("mean_tokens"))),
        "Dense after Tra",
    ),
    "cls without the prompt": (
        Layout("prompt", bert, modules=(pooling("cls_token", include_prompt=False),)),
        "pooling cls that leaves out the prompt",
    ),
    "Router": (Layout("Router", bert, modules=(("Router", {}),)), r"module sentence_transformers\.models\.Router"),
    "Asym": (Layout("Asym", bert, modules=(("Asym", {}),)), r"module sentence_transformers\.models\.Asym"),
    "CNN": (
        Layout("CNN", bert, modules=(("CNN", {}), pooling("mean_tokens"))),
        r"module sentence_transformers\.models\.CNN",
    ),
    "LSTM": (Layout("LSTM", bert, modules=(("LSTM", {}),)), r"module sentence_transformers\.models\.LSTM"),
    "sparse": (Layout("SPLADE", bert, modules=(("SpladePooling", {}),)), "SpladePooling is not supported"),
    "Dense on tokens": (
        Layout(
            "ColBERT", bert, modules=(pooling("mean_tokens"), dense(IDENTITY, module_input_name="token_embeddings"))
        ),
        "module_input_name = token_embeddings",
    ),
    "a function as activation": (
        Layout("other", bert, modules=(pooling("mean_tokens"), dense("my.package.Activation"))),
        r"my\.package\.Activation",
    ),
    "encoder and decoder": (
        Layout("T5", bert, change=entry("config.json", is_encoder_decoder=True)),
        "only encoders are supported",
    ),
    "quantised": (
        Layout("4 bits", bert, change=entry("config.json", quantization_config={"quant_method": "bitsandbytes"})),
        "quantization_config is not supported",
    ),
    "chat template": (
        Layout("images", bert, sentence={"modality_config": {"message": {"method": "forward"}}}),
        "only text as it is",
    ),
}
"""Every layout that is refused, and what the message says."""


def page() -> str:
    """The tables of docs/guides/sentence-transformers.md, made of `READ` and `REFUSED`."""
    lines = ["| layout | as in | modules | prompts | compared by |", "| --- | --- | --- | --- | --- |"]
    others = []
    for name, layout in READ.items():
        if " " in layout.like.replace(", ", ""):  # not the name of a model
            others.append(name)
            continue
        modules = ", ".join(["Transformer", *(module for module, _ in layout.modules)])
        prompts = ", ".join(key for key, value in layout.prompts.items() if value) or "none"
        lines.append(f"| {name} | {layout.like} | {modules} | {prompts} | {layout.similarity or 'cosine'} |")
    refused = ", ".join(REFUSED)
    return "\n".join(lines) + f"\n\nAlso read: {'; '.join(others)}.\n\nRefused by name: {refused}.\n"
