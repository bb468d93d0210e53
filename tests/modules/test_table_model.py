"""A table of word vectors as a backbone."""

from __future__ import annotations

import torch

from opencse.modules.table_model import Table, TableConfig


def test_states_are_rows_with_dropout_in_training_alone() -> None:
    table = Table(TableConfig(vocab_size=9, hidden_size=4, hidden_dropout_prob=0.5))
    table.train(False)
    ids = torch.tensor([[1, 2], [8, 0]])
    rows = table.embedding.weight
    output = table(ids, output_hidden_states=True)
    assert torch.equal(output.last_hidden_state, rows[ids])
    assert len(output.hidden_states) == 1
    assert torch.equal(table(inputs_embeds=rows[ids]).last_hidden_state, rows[ids])
    assert not torch.equal(table.train()(ids).last_hidden_state, rows[ids])
