"""Gradients of whole training steps of any recipe, however the rows are encoded."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor

from opencse.objective.objective import Objective
from opencse.objective.vectors.chunks import Chunks
from opencse.progress import Silent
from opencse.recipes.files import recipe_names
from opencse.recipes.recipe import load_recipe
from opencse.runs.run import Run
from opencse.runs.setup import GivenSet
from opencse.text.given import open_texts
from opencse.text.readers import Source
from opencse.training.step import Step, WorstCase, step_inputs

BATCH, STEPS = 7, 2
VARIANTS: dict[str, tuple[str, ...]] = {
    "dual": ("objective.dual_encoder=true",),
    "shared-mask": ("objective.view.shared_mask=true",),
    "mlm": ('objective.terms=[{kind="mlm"}]',),
    "input-fgsm": ('objective.view={kind="input_fgsm"}',),
    "input-bernoulli": ('objective.view={kind="input_bernoulli"}',),
    "output-fgsm": ('objective.view={kind="output_fgsm"}', 'objective.negatives=[{kind="in_batch"}]'),
    "means": ('objective.positive={of={kind="mean", samples=2}}', 'objective.negatives=[{kind="noisy_anchor"}]'),
    "sam-fgsm": ('training.worst_case={kind="sam", inputs={kind="fgsm"}}', "training.accumulate=2"),
    "awp-gaussian": ('training.worst_case={kind="awp", inputs={kind="gaussian"}}', "training.accumulate=2"),
    "barlow": ('objective.terms=[{kind="barlow_twins", artificial=3}]',),
    "fitted": ('objective.negatives=[{kind="in_batch"}, {kind="gmm", components=2}]',),
    "matryoshka": ("objective.matryoshka={dimensions=[8,16]}", "encoder.head.kind=none"),
    "diffcse-reference": (
        "encoder.head.kind=projection",
        'objective.terms=[{kind="replaced_tokens", masking="bert", pick="best", places="all", padding="counted"}]',
    ),
    "guided": (
        'objective.negatives=[{kind="in_batch", guide={strategy="fixed", limit=0.1, centred=true, pooling="mean"}}, '
        '{kind="gaussian", mean="zero", sd="one", ascend={steps=2, rate=0.5}}]',
    ),
    "distilled": (
        'objective.terms=[{kind="distill", teachers=[{}, {pooling="cls", weight=2}], shuffle=0.5}, '
        '{kind="consistency", scaling="reference"}]',
    ),
    "ranked": ('objective.terms=[{kind="rank_vectors", corpus=10, least=5, low=-1, high=1}]',),
    "near-start": (
        "encoder.head.kind=none",
        'objective.terms=[{kind="near_start", vectors=2.0, weights=0.5, distance="mse"}]',
    ),
    "denoising-untied": ('objective.terms=[{kind="denoising", decoder={kind="copy", tied=false}}]',),
    "projection": (
        "encoder.head.kind=projection",
        'objective.negatives=[{kind="in_batch", of={kind="clean"}}, {kind="layers"}, {kind="momentum_queue"}]',
    ),
    "hardest": (
        'objective.negatives=[{kind="in_batch"}, {kind="gaussian", pool=4, hardest="anchor"}, {kind="gmm", pool=3, '
        'components=2}, {kind="noisy_anchor", pool=3}]',
    ),
    "side-rates": ("objective.view.rates=[0.05,0.3]",),
    "combined": (
        'objective.negatives=[{kind="in_batch", hardness=9, guide={strategy="relative", margin=0.2}}, '
        '{kind="layers", average_with_plain=true}, {kind="memory_bank"}, {kind="mixed", columns="all", mirrored=true}]',
        'objective.terms=[{kind="dcl"}]',
        'objective.directions="both"',
        'objective.partition="joint"',
        "objective.learned_temperature=true",
    ),
    "template": (
        "encoder.template='Text \"{text}\" is {mask}.'",
        "encoder.pooling=mask",
        "encoder.subtract_template=padding",
        'objective.view={kind="repeat_subwords"}',
        'objective.negatives=[{kind="in_batch"}, {kind="momentum_queue"}, {kind="rewritten", change="negated"}]',
    ),
}
"""What no recipe has on its own, as settings of simcse."""
SMALL: dict[str, tuple[str, ...]] = {
    "scd": ("objective.terms.barlow_twins.projector=[24,24,24]",),
    "sg-opt": ("objective.terms.self_guided.size=24",),
    "denosent": ("objective.terms.denoising.decoder.layers=2", "objective.terms.denoising.decoder.width=64"),
}
"""Networks of thousands of dimensions or many layers, as small as the encoder of the tests."""
DEEP = {"infocse", "sscl-bert", "sscl-progressive"}
"""They read layers below the last."""


def layers_of(name: str) -> str:
    """The setting of as few layers as a recipe or variant needs."""
    return f"encoder.layers={1 + (name in DEEP)}"


def parts_of(name: str) -> set[tuple[str, ...]]:
    """The kinds of parts that a recipe is made of, and what else a step is made by."""
    recipe = load_recipe(name)
    objective, training = recipe.objective, recipe.training
    sources = [source.model_dump(mode="json") for source in objective.negatives]
    return {
        ("view", objective.view.kind),
        ("positive", objective.positive.of.kind),
        ("head", recipe.encoder.head.kind),
        *(("negatives", source["kind"], source.get("of", {}).get("kind", "")) for source in sources),
        *(("term", term.kind) for term in objective.terms),
        *([("worst case", training.worst_case.kind)] if training.worst_case else []),
        *([("tokens",)] if training.batch_tokens else []),
    }


def covering(names: list[str]) -> list[str]:
    """As few of the recipes as hold every part that all of them hold, the richest first."""
    kept: list[str] = []
    seen: set[tuple[str, ...]] = set()
    for name in sorted(names, key=lambda name: (-len(parts_of(name)), name)):
        if not parts_of(name) <= seen:
            kept.append(name)
            seen |= parts_of(name)
    return kept


NAMES = [*covering(recipe_names()), *VARIANTS]


def text_for(recipe: str, folder: Path, sentences: list[str]) -> Source:
    """What the recipe reads: 20 sentences, 20 triples, 15 documents, or 20 pairs (triples) with a label."""
    label = Objective.from_settings(load_recipe(recipe).objective).label
    if label is not None:
        path = folder / f"{label}.tsv"
        if not path.is_file():
            texts = 3 if label == "margin" else 2
            rows = [[*sentences[i : i + 20 * texts : 20], str(i % 3)] for i in range(20)]
            names = [*("anchor", "positive", "negative")[:texts], "label"]
            path.write_text("\n".join("\t".join(row) for row in [names, *rows]))
        return Source(str(path))
    columns = 3 if load_recipe(recipe).objective.view.kind == "pair" else 1
    if load_recipe(recipe).objective.view.kind == "spans":
        return Source(str(write_documents(folder / "documents.txt", sentences)))
    path = folder / ("triples.tsv" if columns == 3 else "text.txt")
    if not path.is_file():
        rows = [sentences[i : i + 20 * columns : 20] for i in range(20)]
        lines = ["\t".join(row) for row in rows]
        path.write_text("\n".join(["anchor\tpositive\tnegative", *lines] if columns == 3 else lines))
    return Source(str(path))


def write_documents(path: Path, sentences: list[str], documents: int = 15, length: int = 24) -> Path:
    """A file of documents of ``length`` sentences each, with a blank line between two."""
    rows = [[sentences[(11 * i + j) % len(sentences)] for j in range(length)] for i in range(documents)]
    path.write_text("\n\n".join("\n".join(one) for one in rows))
    return path


def also_for(recipe: str, sentences: list[str]) -> tuple[GivenSet, ...]:
    """A text of 20 sentences for each further data set of the recipe."""
    text = open_texts(sentences[100:120])
    return tuple((text, None) for _ in load_recipe(recipe).datasets or ())


def prepared(name: str, model: Path, folder: Path, sentences: list[str], *more: str) -> Run:
    """A recipe or variant, ready for steps in float64 on a little text."""
    recipe = "simcse" if name in VARIANTS else name
    longest = 60 if load_recipe(recipe).encoder.template else 32
    settings = [
        *SMALL.get(recipe, ()),
        f"training.batch_size={BATCH}",
        f"data.max_length={longest}",
        "training.precision=float32",
    ]
    if load_recipe(recipe).training.batch_tokens is not None:
        settings.append("training.batch_tokens=200")
    source = text_for(recipe, folder, sentences)
    if load_recipe(recipe).objective.view.kind == "spans":
        settings.append("objective.view.shortest=6")
    job = Run(
        text=source,
        recipe=recipe,
        model=str(model),
        settings=(*settings, *VARIANTS.get(name, ()), *more),
        dev=None,
        also=also_for(recipe, sentences),
    )
    made = job.open(Silent())
    made.encoder.double()
    made.objective.double()
    return made


def gradients(run: Run, chunks: Chunks, *, dropout: bool) -> list[dict[str, Tensor]]:
    """The gradients of the first steps, the weights standing still, and the parts' state after them.

    ``run`` is left as it is.
    """
    encoder, objective = run.encoder.twin(), copy.deepcopy(run.objective)
    encoder.train(dropout)
    objective.train()
    if objective.second is not None:
        objective.second.train(dropout)
    for network in objective.networks:
        network.train(dropout)
    for head in encoder.batch_heads:
        head.train()
    modules = {"encoder": encoder, "objective": objective}
    named = {f"{name}.{k}": p for name, module in modules.items() for k, p in module.named_parameters()}
    trained = {name: p for name, p in named.items() if p.requires_grad}
    training = run.start.recipe.training
    worst_case = None if training.worst_case is None else WorstCase(training.worst_case, list(trained.values()))
    step = Step(encoder, objective, run.precision, worst_case=worst_case)
    torch.manual_seed(3)
    found = []
    for number in range(STEPS):
        step.gradients(step_inputs(run.inputs, run.batches, number, training.accumulate, encoder, chunks))
        found.append({name: p.grad.clone() for name, p in trained.items() if p.grad is not None})
        for parameter in trained.values():
            parameter.grad = None
    found.append({name: t.double() for name, t in objective.state_dict().items()})
    found.append({"random": torch.get_rng_state().double()})
    return found


def gap(a: list[dict[str, Tensor]], b: list[dict[str, Tensor]]) -> float:
    """The largest difference of two runs' tensors, relative to the largest value of the kind; infinite for others."""
    largest = 0.0
    for one, other in zip(a, b, strict=True):
        if one.keys() != other.keys():
            return float("inf")
        scale = max((float(t.abs().max()) for t in other.values() if t.numel()), default=0.0) or 1.0
        for name, tensor in one.items():
            if tensor.numel():
                largest = max(largest, float((tensor - other[name]).abs().max()) / scale)
    return largest
