"""sentence-transformers goes on training what was saved here, and what it saves then is opened here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.table import bare_tokenizer, new_table
from opencse.modules.dense import Dense
from opencse.modules.parts import Parts
from opencse.text.tokenizer import Tokenizer

pytestmark = pytest.mark.slow


def with_layers(folder: Path) -> SentenceEncoder:
    encoder = SentenceEncoder.load(folder, pooling="cls", device="cpu")
    torch.manual_seed(1)
    encoder.dense.append(Dense(32, 8, "tanh"))
    return encoder


def of_words(folder: Path) -> SentenceEncoder:
    tokenizer = bare_tokenizer(Tokenizer.load(folder).hf.backend_tokenizer)
    rows = torch.randn(tokenizer.vocabulary_size, 8, generator=torch.Generator().manual_seed(1))
    return SentenceEncoder.from_parts(
        Parts(new_table(rows), tokenizer, pooling=with_layers(folder).pooling.MEAN, max_length=40)
    )


@pytest.mark.parametrize("make", [with_layers, of_words])
def test_there_and_back(make: object, tiny_folder: Path, sentences: list[str], tmp_path: Path) -> None:
    assert callable(make)
    encoder = make(tiny_folder)
    encoder.normalize = True
    encoder.save(tmp_path / "ours")
    model = SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    started = model.encode(sentences[:5])
    assert np.abs(started - encoder.encode(sentences[:5])).max() < 1e-5
    rows = Dataset.from_dict({"anchor": sentences[:32], "positive": sentences[1:33]})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "out"),
        max_steps=3,
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
    )
    SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=rows, loss=MultipleNegativesRankingLoss(model)
    ).train()
    model.save(str(tmp_path / "trained"))
    model.eval()
    trained = model.encode(sentences[:5])
    assert np.abs(trained - started).max() > 1e-2
    back = SentenceEncoder.load(tmp_path / "trained", device="cpu")
    assert (back.dimension, back.normalize, back.pooling) == (8, True, encoder.pooling)
    assert np.abs(back.encode(sentences[:5]) - trained).max() < 1e-5
