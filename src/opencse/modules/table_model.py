"""A table of word vectors as a transformers backbone; a separate module, since it imports transformers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from opencse.folder_kinds import TABLE

DROPOUT = 0.1


class TableConfig(PreTrainedConfig):  # type: ignore[no-untyped-call, misc, unused-ignore]
    """Sizes of a table of word vectors; dropout acts on the rows in training alone.

    >>> TableConfig(vocab_size=10, hidden_size=4).num_hidden_layers
    0
    """

    model_type = TABLE

    def __init__(
        self,
        vocab_size: int = 1,
        hidden_size: int = 1,
        hidden_dropout_prob: float = DROPOUT,
        **others: Any,  # noqa: ANN401 - transformers' own
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.hidden_dropout_prob = hidden_dropout_prob
        self.num_hidden_layers = 0
        super().__init__(**others)


class Table(PreTrainedModel):
    """A backbone that is one embedding: its hidden states are the rows of the tokens.

    >>> import torch
    >>> Table(TableConfig(vocab_size=10, hidden_size=4))(torch.tensor([[1, 2, 3]])).last_hidden_state.shape
    torch.Size([1, 3, 4])
    """

    config_class = TableConfig
    config: TableConfig
    base_model_prefix = "table"

    def __init__(self, config: TableConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        """The rows."""
        return self.embedding

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutput:
        """(rows, length) ids -> (rows, length, hidden)."""
        del attention_mask, return_dict
        rows: Tensor = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        states = self.dropout(rows)
        return BaseModelOutput(last_hidden_state=states, hidden_states=(states,) if output_hidden_states else None)
