"""Low-rank adapters (LoRA) through peft: adds them to a backbone, writes, reads and merges them.

LoRA (Hu et al. 2021, arXiv:2106.09685, equation 3) leaves a linear map W (out, in) unchanged and adds to it

    W + (alpha / r) B A,   B (out, r) = 0 at the start, A (r, in) random,

of which B and A alone are trained.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field
from torch import Tensor

from opencse.environment import require_packages
from opencse.errors import UserError, explaining, reason
from opencse.model_folder.backbone import quiet_transformers
from opencse.model_folder.layout import ADAPTER_CONFIG, entry, read_config, refuse_others
from opencse.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WEIGHTS = "adapter_model.safetensors"
_NAME = "default"  # peft's for the only one
_PREFIX = "base_model.model."
_MOST_RANK = 65_536
# Entries that are read of a configuration; all others must have peft's default.
_READ = ("r", "lora_alpha", "target_modules", "use_rslora", "rank_pattern", "alpha_pattern")
# Entries that only training needs, or that say where it came from.
_SAY_NOTHING = (
    "auto_mapping",
    "base_model_name_or_path",
    "inference_mode",
    "lora_dropout",
    "peft_version",
    "task_type",
)


class LoraSettings(Settings):
    """Settings of low-rank adapters (LoRA, by peft), which are trained while the backbone's weights stay unchanged.

    Dense layers that the model came with stay unchanged too; a new head is trained.

    Attributes:
        rank: of the change (r).
        alpha: the change counts alpha / r times.
        dropout: rate of the dropout before the change.
        targets: the last part of the names of the layers that get adapters (``query``, ``value``); all linear maps of
            the backbone by default.

    Example:
        >>> str(LoraSettings(rank=4, targets=("query", "value")))
        'rank 4, alpha 16 on query, value'
    """

    rank: int = Field(default=8, ge=1, le=_MOST_RANK)
    alpha: float = Field(default=16.0, gt=0, le=1_000_000)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"rank {self.rank}, alpha {self.alpha:g} on {', '.join(self.targets) or 'all linear maps'}"


def add_adapters(backbone: PreTrainedModel, settings: LoraSettings, base: str, seed: int) -> None:
    """Puts new adapters on ``backbone``; nothing else of it is trained from then on.

    Args:
        backbone: changed in place; its vectors are the same until the adapters are trained.
        settings: of the adapters.
        base: what the backbone was loaded from, as sentence-transformers and peft would find it.
        seed: of A.

    Raises:
        UserError: if peft is not installed, or no layer is called like the targets.
    """
    require_packages("encoder.lora", "lora", "peft")
    from peft import LoraConfig

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.targets) or "all-linear",
        base_model_name_or_path=base,
        task_type="FEATURE_EXTRACTION",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _inject(config, backbone, f"encoder.lora: {base}")


def merge_adapters(backbone: PreTrainedModel) -> None:
    """Adds what the adapters learned to the weights of ``backbone``, in place, and removes them."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, layer in list(backbone.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            merged = layer.get_base_layer()
            with torch.no_grad():
                merged.weight.mul_(1)  # peft writes through .data, which torch does not count as a change
            parent, _, attribute = name.rpartition(".")
            backbone.get_submodule(parent).register_module(attribute, merged)
    vars(backbone).pop("peft_config")
    backbone.requires_grad_(True)


def write_adapters(backbone: PreTrainedModel, folder: Path) -> None:
    """Writes the adapters of ``backbone`` as peft does: ``adapter_config.json`` and ``adapter_model.safetensors``."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    state: dict[str, Tensor] = get_peft_model_state_dict(backbone, adapter_name=_NAME, save_embedding_layers=False)
    written = {f"{_PREFIX}{name}": tensor.detach().float().cpu().contiguous() for name, tensor in state.items()}
    save_file(written, folder / WEIGHTS, metadata={"format": "pt"})
    config = copy.copy(vars(backbone)["peft_config"][_NAME])
    config.inference_mode = True
    config.target_modules = sorted(config.target_modules)  # a set, in another order in each process
    config.save_pretrained(folder)


@dataclass(frozen=True)
class Adapters:
    """Adapters in a folder, their configuration checked.

    Attributes:
        folder: that holds them.
        base: the model they belong to: a folder, or a Hub id.
        config: arguments of `peft.LoraConfig`.
    """

    folder: Path
    base: str
    config: dict[str, Any]

    def merge_into(self, backbone: PreTrainedModel) -> None:
        """Adds them to the weights of ``backbone``, which was loaded from ``base``.

        Raises:
            UserError: if peft is not installed, or they do not fit.
        """
        require_packages(f"{self.folder}: an adapter", "lora", "peft")
        from peft import LoraConfig, set_peft_model_state_dict
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        file = self.folder / WEIGHTS
        with torch.random.fork_rng(devices=[]):
            _inject(LoraConfig(**self.config), backbone, str(self.folder))
        expected = {name for name in backbone.state_dict() if ".lora_" in name}
        with explaining(
            f"{file}: the adapters do not fit {self.base}", OSError, SafetensorError, RuntimeError, KeyError
        ):
            state = {name.removeprefix(_PREFIX): tensor.float() for name, tensor in load_file(file).items()}
            report = set_peft_model_state_dict(backbone, state, adapter_name=_NAME)
        wrong = sorted({*expected & set(report.missing_keys), *report.unexpected_keys})
        if wrong:
            raise UserError(f"{file}: {len(wrong)} weights are missing or belong nowhere in {self.base} ({wrong[0]})")
        merge_adapters(backbone)


def read_adapters(folder: Path) -> Adapters:
    """The adapters in ``folder``.

    Only plain LoRA is opened: its configuration names no code, and every key that is not known to be one of numbers
    and names has to be as peft has it by default.

    Raises:
        UserError: for another kind of adapter, or a configuration that is not of LoRA alone.
    """
    path = folder / ADAPTER_CONFIG
    config = read_config(path)
    base = entry(path, config, "base_model_name_or_path", str, "")
    if not base:
        raise UserError(f"{path}: base_model_name_or_path is missing; name the model that the adapters belong to")
    require_packages(f"{folder}: an adapter", "lora", "peft")
    from peft import LoraConfig

    others = {key: value for key, value in config.items() if value and key not in (*_READ, *_SAY_NOTHING)}
    if others.get("init_lora_weights") == "gaussian":  # how they began
        del others["init_lora_weights"]
    refuse_others(path, others, LoraConfig().to_dict() | {"peft_type": "LORA"})
    targets = config.get("target_modules")
    if targets != "all-linear" and not isinstance(targets, list):  # text would be a regular expression
        raise UserError(f"{path}: target_modules is {str(targets)[:60]!r}; a list of names was expected")
    return Adapters(folder, base, {key: config[key] for key in _READ if config.get(key) is not None})


def shares_the_start(name: str) -> bool:
    """Whether a weight may be averaged with the start's as it is.

    Not A: averaging B alone with its start, which is 0, gives B A averaged with 0, and so the average of the weights.
    """
    return ".lora_A." not in name


def _inject(config: Any, backbone: PreTrainedModel, where: str) -> None:  # noqa: ANN401 - peft is untyped
    from peft import inject_adapter_in_model

    try:
        with quiet_transformers():
            inject_adapter_in_model(config, backbone, _NAME)
    except ValueError as error:
        maps = [name for name, one in backbone.named_modules() if isinstance(one, torch.nn.Linear)]
        names = sorted({name.rpartition(".")[2] for name in maps})
        if not names:
            raise UserError(
                f"{where}: has no linear maps, which adapters are added to (word vectors have none); leave "
                "encoder.lora out and train all weights"
            ) from None
        raise UserError(
            f"{where}: adapters cannot be put on it ({reason(error)[:160]}); linear maps: {', '.join(names)}"
        ) from None
