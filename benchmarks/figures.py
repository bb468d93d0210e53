"""The papers' pictures, drawn from runs made here: paths in the plane, spectra, densities, layers, courses.

    python benchmarks/figures.py --data DATA --start wikibert-mini --work WORK --out docs/results/figures

DATA holds wiki/wiki100k.txt and sts/. What is finished in WORK is not made again; a broken-off run goes on from its
checkpoint. Beside the SVG files stands figures.json with every number drawn, versions and date.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from opencse import SentenceEncoder, train
from opencse.analysis.figures import by_layer, curves, densities, plane, spectra, standalone, token_map
from opencse.analysis.inspection import Findings, Material, Subject, SubjectFindings, inspect
from opencse.analysis.layers import LayerSimilarities, layer_similarities, token_similarities
from opencse.evaluation import load_sts
from opencse.evaluation.embedding import distinct
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.pairs import read_scored_pairs
from opencse.evaluation.transforms import postprocessed
from opencse.progress import Terminal
from opencse.records import write_text
from opencse.runs.report import path_of, series, subject
from opencse.training.metrics import MetricsLog

ROADS = {
    "SimCSE": "simcse",
    "no dropout": "simcse:dropout-0",
    "one mask for both": "simcse:dropout-fixed-0.1",
    "delete one word": "simcse:delete-one-word",
}
"""SimCSE, Fig. 2."""
LAYERED = {"SSCL": "sscl"}
IN_THE_PLANE = ("SimCSE", "no dropout", "delete one word", "SSCL")
START = "the start"
SENTENCE = "The committee met twice a year in the old town hall ."

Log = list[dict[str, float]]


def run(name: str, recipe: str, arguments: argparse.Namespace) -> tuple[Path, Log]:
    """Trains, or reads what is finished; the folder and the log."""
    folder: Path = arguments.work / recipe.replace(":", "_")
    record = folder / "run.json"
    if not (record.is_file() and json.loads(record.read_text(encoding="utf-8")).get("result")):
        print(f"{name}: {recipe}")
        train(
            arguments.data / "wiki" / "wiki100k.txt",
            folder,
            recipe=recipe,
            model=str(arguments.start),
            settings=[f"training.seed={arguments.seed}", "encoder.pooling=cls", *arguments.set],
            dev=arguments.data / "sts" / "stsb" / "dev.tsv",
            resume=record.is_file(),
            progress=Terminal(),
        )
    return folder, MetricsLog(folder / "metrics.jsonl").read()


def models(folders: Mapping[str, Path], arguments: argparse.Namespace) -> list[Subject]:
    """The start by two poolings, whitened, the last steps of the runs, and what was named beside them."""
    start = str(arguments.start)
    found = [
        subject(f"{START}, {pooling}", SentenceEncoder.load(start, pooling=pooling)) for pooling in ("cls", "mean")
    ]
    mean = open_model(start, pooling="mean")
    whitened = postprocessed(mean, "whitening", arguments.data / "wiki" / "wiki100k.txt", say=print)
    found.append(Subject(replace(whitened, name=f"{START}, mean, whitened")))
    found += [subject(name, SentenceEncoder.load(folder)) for name, folder in folders.items()]
    return found + [subject(Path(name).name, SentenceEncoder.load(name)) for name in arguments.beside]


def from_findings(findings: Findings, shown: Sequence[str]) -> dict[str, str]:
    """The pictures that need vectors of graded pairs; spectra and densities of ``shown`` alone."""
    known = [one for one in findings.subjects if one.geometry is not None and one.geometry.positives is not None]
    points = {one.name: place(one) for one in known}
    scores = {one.name: one.sts["sts.average"] for one in known if one.sts}
    pictures = {"plane": plane(points, scores if len(scores) == len(points) else None)}
    chosen = [one for one in known if one.name in shown]
    pictures["spectra"] = spectra({one.name: one.geometry.singular_values for one in chosen if one.geometry})
    for one in chosen:
        if one.densities is None:
            continue
        drawn = {f"{g.lower:g}-{g.upper:g}": g.density for g in one.densities.groups if g.density is not None}
        pictures[f"density-{file_name(one.name)}"] = densities(one.densities.grid, drawn, one.name)
    return pictures


def table(findings: Findings) -> str:
    """What the plane and the spectra show, as Markdown."""
    lines = ["| | alignment | uniformity | effective rank | mean cosine | STS-B dev | STS average |", "|---" * 7 + "|"]
    for one in findings.subjects:
        found = one.geometry
        if found is None or one.spearman is None:
            continue
        across, up = place(one)
        average = f"{one.sts['sts.average']:.2f}" if one.sts else "-"
        lines.append(
            f"| {one.name} | {up:.3f} | {across:.3f} | {found.effective_rank:.1f} | {found.mean_cosine:.3f} "
            f"| {one.spearman:.2f} | {average} |"
        )
    return "\n".join([*lines, "", json.dumps(findings.environment.model_dump()), f"{findings.created:%Y-%m-%d}"])


def place(one: SubjectFindings) -> tuple[float, float]:
    """(uniformity, alignment)."""
    if one.geometry is None or one.geometry.positives is None:
        raise ValueError(f"{one.name} has no positive pairs")
    return one.geometry.uniformity, one.geometry.positives.alignment


def file_name(name: str) -> str:
    """For a file."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in name.lower()).split())


def main() -> None:
    """Trains what is missing, looks into it, draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True, help="a backbone with layers")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--beside", nargs="*", default=["opencse-mini"], help="more models for the plane")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument(
        "--set",
        nargs="*",
        default=["training.max_steps=100", "training.evaluate_every=10", "training.learning_rate=1e-4"],
    )
    arguments = parser.parse_args()

    folders, logs = {}, {}
    for name, recipe in {**ROADS, **LAYERED}.items():
        folders[name], logs[name] = run(name, recipe, arguments)
    paths = {name: path_of(logs[name]) for name in ROADS}
    ends = {START: paths["SimCSE"][0], **{name: way[-1] for name, way in paths.items()}}
    pictures = {"paths": plane(ends, paths=paths)}
    dev = {name: series(log, "dev") for name, log in logs.items()}
    pictures["convergence"] = curves(dev, "STS-B dev, Spearman x 100")
    sides = {
        f"{name}, {side}": series(logs[name], f"{side}_similarity")
        for name in ("SimCSE", "one mask for both")
        for side in ("positive", "negative")
    }
    pictures["cosines"] = curves(sides, "mean cosine in the batches")

    pairs = read_scored_pairs(arguments.data / "sts" / "stsb" / "dev.tsv")
    subjects = models({name: folders[name] / "last" for name in IN_THE_PLANE}, arguments)
    sts = load_sts(arguments.data / "sts")
    findings = inspect(subjects, Material(pairs=pairs, sts=sts), resamples=0, progress=print)
    names = [one.name for one in findings.subjects]
    pictures |= from_findings(findings, [names[0], names[2], "SimCSE", *names[3 + len(IN_THE_PLANE) :]])

    test = read_scored_pairs(arguments.data / "sts" / "stsb" / "test.tsv")
    sentences = distinct([test.first, test.second])
    layered: dict[str, LayerSimilarities] = {}
    for one in subjects:
        if one.encoder is not None and one.encoder.depth and one.judged.name in (names[0], "SimCSE", "SSCL"):
            layered[one.judged.name] = layer_similarities(one.encoder, sentences)
            found = token_similarities(one.encoder, SENTENCE)
            title = f"{one.judged.name}: cosine of tokens, layer {found.layer}"
            pictures[f"tokens-{file_name(one.judged.name)}"] = token_map(found.tokens, found.cosines, title)
    pictures["setsim"] = by_layer({name: found.set_sim for name, found in layered.items()}, "SetSim")
    pictures["toksim"] = by_layer({name: found.tok_sim for name, found in layered.items() if found.tok_sim}, "TokSim")

    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures.items():
        write_text(arguments.out / f"{name}.svg", standalone(svg))
    told = findings.model_dump(mode="json") | {"seed": arguments.seed, "settings": arguments.set, "logs": logs}
    told["layers"] = {name: found.model_dump(mode="json") for name, found in layered.items()}
    write_text(arguments.out / "figures.json", json.dumps(told, separators=(",", ":")) + "\n")
    print(table(findings))


if __name__ == "__main__":
    main()
