"""A folder of good files and of bad ones, for hostile commands to be run in."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from helpers import filled, json_in, write_lines
from opencse.text import sample

BAD_TEXTS: dict[str, bytes] = {
    "empty.txt": b"",
    "blank.txt": b"\n \n\t\n",
    "binary.txt": bytes(range(256)),
    "nul.txt": b"one\nt\0wo\n",
    "utf16.txt": "One text.\nAnother.\n".encode("utf-16")[:-1],
    "damaged.txt": "Zürich.\n".encode() + b"caf\xe9\n",
    "endless.txt": b"x" * 200_000,
    "broken.txt.gz": b"no gzip at all",
    "cut.txt.gz": gzip.compress(b"One text.\n" * 1_000)[:-10],
    "broken.jsonl": b'{"text": "One."}\n{"text": \n',
    "number.jsonl": b'{"text": 5}\n',
    "null.jsonl": b'{"text": "One."}\n{"text": null}\n',
    "lacking.jsonl": b'{"text": "One."}\n{"txt": "Two."}\n',
    "surrogate.jsonl": b'{"text": "\\ud800"}\n',
    "deep.jsonl": b"[" * 50_000,
    "long-number.jsonl": b'{"text": ' + b"9" * 5_000 + b"}\n",
    "unknown-columns.csv": b"a,b\n1,2\n",
    "ragged.csv": b"text,b\nOne.,x\nTwo.\n",
    "quotes.csv": b'text\n"One.\n',
    "empty-cell.csv": b"text,b\nOne.,x\n,x\n",
    "broken.parquet": b"PAR1 no more",
    "page.docx": b"One text.\n",
}
"""Texts that no command can read."""

BAD_PAIRS: dict[str, bytes] = {
    "pairs-empty.tsv": b"",
    "pairs-binary.tsv": bytes(range(256)),
    "pairs-two-fields.tsv": b"1\ta\tb\n2\tc\n",
    "pairs-word.tsv": b"1\ta\tb\nmuch\tc\td\n",
    "pairs-nan.tsv": b"1\ta\tb\nnan\tc\td\n",
    "pairs-infinite.tsv": b"1\ta\tb\n" + b"9" * 5_000 + b"\tc\td\n",
    "pairs-equal.tsv": b"1\ta\tb\n1\tc\td\n",
    "pairs-columns.csv": b"a,b,c\n1,x,y\n",
    "pairs-list.jsonl": b"[1]\n",
    "pairs-kinds.jsonl": b'{"score": true, "sentence1": "a", "sentence2": "b"}\n',
    "pairs.docx": b"1\ta\tb\n",
}

BAD_RECIPES: dict[str, str] = {
    "syntax.toml": 'name = "x\n',
    "untitled.toml": 'name = "x"\n',
    "unknown.toml": 'name = "x"\ntitle = "t"\nnope = 1\n',
    "unknown-training.toml": 'name = "x"\ntitle = "t"\n[training]\nlearning = 1\n',
    "unknown-view.toml": 'name = "x"\ntitle = "t"\n[objective]\nview = { kind = "crop", rat = 1 }\n',
    "no-kind.toml": 'name = "x"\ntitle = "t"\n[objective]\nview = { rate = 0.1 }\n',
    "wrong-kind.toml": 'name = "x"\ntitle = "t"\n[[objective.negatives]]\nkind = "in_bach"\n',
    "word.toml": 'name = "x"\ntitle = "t"\n[training]\nepochs = "many"\n',
    "list.toml": 'name = "x"\ntitle = "t"\ntraining = [1]\n',
    "infinite.toml": 'name = "x"\ntitle = "t"\n[training]\nlearning_rate = inf\n',
    "nan.toml": 'name = "x"\ntitle = "t"\n[objective]\ntemperature = nan\n',
    "digits.toml": f'name = "x"\ntitle = "t"\n[training]\nseed = {"9" * 5_000}\n',
    "nothing.toml": 'name = "x"\ntitle = "t"\n[objective]\nnegatives = []\n',
    "deep.toml": "name = " + "[" * 50_000,
    "empty.toml": "",
}

LINES = filled(sample.TRAIN)[:24]
PAIRS = filled(sample.DEV)[:12]


def build_world(folder: Path, tiny: Path, sts: Path) -> Path:
    """The files; ``tiny`` is a transformers folder, ``sts`` one with the seven tasks."""
    folder.mkdir()
    write_lines(folder / "good.txt", LINES)
    write_lines(folder / "good.tsv", PAIRS)
    (folder / "good.csv").write_text("anchor,positive\n" + "a text,its pair\n" * 4, encoding="utf-8")
    (folder / "good.toml").write_text('name = "good"\ntitle = "t"\n', encoding="utf-8")
    for name, content in (BAD_TEXTS | BAD_PAIRS).items():
        (folder / name).write_bytes(content)
    for name, text in BAD_RECIPES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "latin1.toml").write_bytes('name = "caf\xe9"\n'.encode("latin-1"))
    for name in ("folder.txt", "folder.tsv", "folder.toml", "folder.json", "folder.npy", "empty"):
        (folder / name).mkdir()
    (folder / "skip-words.txt").write_text("1\ntwo\n", encoding="utf-8")
    (folder / "skip-zero.txt").write_text("0\n", encoding="utf-8")
    (folder / "skip-long.txt").write_text("9" * 5_000 + "\n", encoding="utf-8")
    (folder / "file").write_text("a file that somebody wrote\n", encoding="utf-8")
    shutil.copytree(tiny, folder / "tiny")
    shutil.copytree(sts, folder / "data" / "sts")
    _bad_models(folder)
    _bad_data(folder)
    return folder


MODELS = (
    "model-config",
    "model-kind",
    "model-weights",
    "model-no-weights",
    "model-tokenizer",
    "model-modules",
    "model-foreign-module",
    "model-zero",
    "model-nan",
    "model-outside",
    "model-many-layers",
    "model-prompt-missing",
)


def _bad_models(folder: Path) -> None:
    for name in MODELS:
        shutil.copytree(folder / "tiny", folder / name)
    config = json_in(folder / "tiny" / "config.json")
    (folder / "model-config" / "config.json").write_text("{")
    (folder / "model-kind" / "config.json").write_text(json.dumps(config | {"model_type": "no-such-kind"}))
    (folder / "model-weights" / "model.safetensors").write_bytes(b"nothing of the kind")
    (folder / "model-no-weights" / "model.safetensors").unlink()
    (folder / "model-tokenizer" / "tokenizer.json").write_text("{")
    (folder / "model-modules" / "modules.json").write_text("{")
    (folder / "model-foreign-module" / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "", "type": "elsewhere.Code"}])
    )
    _wrong_weights(folder)
    many = config | {"num_hidden_layers": 10_000_000}
    (folder / "model-many-layers" / "config.json").write_text(json.dumps(many))
    sentence_model(folder / "model-prompt-missing")
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "passage"}
    (folder / "model-prompt-missing" / "config_sentence_transformers.json").write_text(json.dumps(prompts))


def sentence_model(folder: Path) -> None:
    """Makes a sentence-transformers folder of a transformers folder."""
    kind = "sentence_transformers.models."
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{kind}Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    width = json_in(folder / "config.json")["hidden_size"]
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def _wrong_weights(folder: Path) -> None:
    """Weights that a program wrote and that no encoder can have, and weights of somebody else's folder."""
    for name, value in {"model-zero": 0.0, "model-nan": float("nan")}.items():
        file = folder / name / "model.safetensors"
        weights = {key: torch.full_like(tensor, value) for key, tensor in load_file(file).items()}
        file.unlink()
        save_file(weights, file)
    file = folder / "model-outside" / "model.safetensors"
    where = dict.fromkeys(load_file(file), "../tiny/model.safetensors")
    file.unlink()
    (folder / "model-outside" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


DATA = ("data-cut", "data-empty-file", "data-word", "data-ragged", "data-nan", "data-binary")


def _bad_data(folder: Path) -> None:
    for name in DATA:
        shutil.copytree(folder / "data", folder / name)
    for name, content in {
        "data-empty-file": b"",
        "data-word": b"much\ta\tb\n",
        "data-ragged": b"1\ta\n",
        "data-nan": b"1\ta\tb\nnan\tc\td\n",
        "data-binary": bytes(range(256)),
    }.items():
        first = sorted((folder / name).rglob("*.tsv"))[0]
        first.write_bytes(content)
    sorted((folder / "data-cut").rglob("*.tsv"))[0].unlink()
