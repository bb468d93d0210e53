"""Kinds of model folders that are read, as real models have them, those that are refused, and the table of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from helpers import json_in
from layout_folders import (
    HIDDEN,
    Layout,
    adapters,
    bert,
    distilbert,
    gpt2,
    modernbert,
    mpnet,
    nomic_bert,
    qwen3,
    squeezebert,
    t5,
    xlm_roberta,
)


def dense(activation: str, out: int = 24, **more: Any) -> tuple[str, Mapping[str, Any]]:
    config = {"in_features": HIDDEN, "out_features": out, "bias": True, "activation_function": activation}
    return "Dense", {**config, **more}


def pooling(mode: str, **more: Any) -> tuple[str, Mapping[str, Any]]:
    return "Pooling", {f"pooling_mode_{mode}": True, **more}


def entry(file: str, **values: Any) -> Callable[[Path], None]:
    """Changes some values of a JSON file of the folder."""

    def change(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps(json_in(path) | values))

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
    "INSTRUCTOR": Layout(
        "instructor-base",
        t5,
        modules=(pooling("mean_tokens", include_prompt=False), dense(IDENTITY, bias=False), NORMALIZE),
        prompts={"query": "Represent the question: ", "document": "Represent the passage: "},
    ),
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
    "token types among the words": Layout("GPT-2 with a tokenizer of BERT's kind", gpt2),
    "a pooler that is always called": Layout("SqueezeBERT", squeezebert),
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
        "modules Transformer Dense Pooling are not",
    ),
    "cls without the prompt": (
        Layout("prompt", bert, modules=(pooling("cls_token", include_prompt=False),)),
        "pooling cls that leaves out the prompt",
    ),
    "Router": (Layout("Router", bert, modules=(("Router", {}),)), "modules Transformer Router are not"),
    "Asym": (Layout("Asym", bert, modules=(("Asym", {}),)), "modules Transformer Asym are not"),
    "CNN": (
        Layout("CNN", bert, modules=(("CNN", {}), pooling("mean_tokens"))),
        "modules Transformer CNN Pooling are not",
    ),
    "LSTM": (Layout("LSTM", bert, modules=(("LSTM", {}),)), "modules Transformer LSTM are not"),
    "sparse": (Layout("SPLADE", bert, modules=(("SpladePooling", {}),)), "modules Transformer SpladePooling are not"),
    "Dense on tokens": (
        Layout(
            "ColBERT", bert, modules=(pooling("mean_tokens"), dense(IDENTITY, module_input_name="token_embeddings"))
        ),
        "module_input_name = 'token_embeddings'",
    ),
    "a function as activation": (
        Layout("other", bert, modules=(pooling("mean_tokens"), dense("my.package.Activation"))),
        r"my\.package\.Activation",
    ),
    "encoder and decoder": (
        Layout("BART", bert, change=entry("config.json", is_encoder_decoder=True)),
        "has an encoder and a decoder",
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
