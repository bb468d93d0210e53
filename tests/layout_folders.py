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


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=2, n_head=4, n_positions=64))


def squeezebert() -> nn.Module:
    from transformers import SqueezeBertConfig, SqueezeBertModel

    return SqueezeBertModel(SqueezeBertConfig(vocab_size=VOCABULARY, embedding_size=HIDDEN, **SIZES))


def t5() -> nn.Module:
    from transformers import T5Config, T5EncoderModel

    sizes: dict[str, Any] = {"d_model": HIDDEN, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    return T5EncoderModel(T5Config(vocab_size=VOCABULARY, **sizes))


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
