"""Checkpoints in Hugging Face's layout: a folder with ``config.json`` and safetensors, one file or sharded.

A hub id becomes such a folder through ``huggingface_hub``. Files are mapped into memory and read tensor by
tensor; nothing in them is executed (pickled weights are not read at all).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from qwenperf.errors import CheckpointError, EnvironmentUnfitError
from qwenperf.models.assemble import Tensor, assemble
from qwenperf.models.config import ModelConfig
from qwenperf.models.ends import GENERATION_CONFIG
from qwenperf.models.families import family_of
from qwenperf.models.json_file import read_json
from qwenperf.models.parameters import Params
from qwenperf.models.safetensors_file import open_file

CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PATTERNS = ["*.safetensors", "*.safetensors.index.json", CONFIG, GENERATION_CONFIG, "tokenizer.json"]


def read_config(folder: Path) -> tuple[ModelConfig, Mapping[str, Any]]:
    """Return the folder's configuration, as ours and as it stands in the file.

    Raises:
      CheckpointError: no ``config.json``, or not a JSON object.
      ConfigError: it asks for what the code does not do.
    """
    data = read_json(folder / CONFIG)
    return ModelConfig.from_hf(data, source=str(folder / CONFIG)), data


def load_folder(folder: Path, config: ModelConfig, dtype: str) -> Params:
    """Return the parameters stored in ``folder``, in ``dtype`` (f32 or bf16).

    Raises:
      CheckpointError: a file or tensor is missing, left over, cut short or of another shape; names it.
    """
    family, tensors = family_of(config), dict[str, Tensor]()
    for tensor in _stored_tensors(folder, lambda stored: not family.our_name(stored)):
        name = family.our_name(tensor.name)
        if name in tensors:
            raise CheckpointError(f"{tensor.file}: tensors {tensor.name!r} and {tensors[name].name!r} are the same.")
        if name:
            tensors[name] = _transposed(tensor) if family.transposed(name) else tensor
    return assemble(config, tensors, dtype, str(folder))


def download_snapshot(hub_id: str, *, config_only: bool = False) -> Path:
    """Return the local folder of a hub model (``owner/name`` or ``owner/name@revision``), downloading what is missing.

    With ``config_only`` nothing but its configuration.

    Raises:
      EnvironmentUnfitError: the hub cannot be reached, or refuses.
    """
    from huggingface_hub import snapshot_download  # takes a while to import, and most runs need no hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    repository, _, revision = hub_id.partition("@")
    try:
        patterns = [CONFIG] if config_only else _PATTERNS
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=patterns))
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EnvironmentUnfitError(
            f"model {hub_id!r} could not be brought from the Hugging Face hub: {cause}.",
            advice="Check the name and the network, or give a local folder with its files.",
        ) from error


def _stored_tensors(folder: Path, is_left_out: Callable[[str], bool]) -> list[Tensor]:
    if (folder / SINGLE).is_file():
        return open_file(folder / SINGLE, is_left_out)
    if (folder / INDEX).is_file():
        return _open_shards(folder, is_left_out)
    others = sorted(path.name for path in folder.glob("*") if path.suffix in {".bin", ".pth", ".pt", ".gguf"})
    seen = f"; it has {', '.join(others[:4])}" if others else ""
    raise CheckpointError(
        f"{folder}: neither {SINGLE} nor {INDEX} is there{seen}.",
        advice="Only safetensors files are read from a folder.",
    )


def _open_shards(folder: Path, is_left_out: Callable[[str], bool]) -> list[Tensor]:
    index = folder / INDEX
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise CheckpointError(f"{index}: weight_map is missing or is no object of tensor and file names.")
    tensors: list[Tensor] = []
    for shard in sorted(set(weight_map.values())):
        # A name with a folder in it could lead anywhere.
        if Path(shard).name != shard:
            raise CheckpointError(f"{index}: shard {shard!r} is not the name of a file beside it.")
        if not (folder / shard).is_file():
            raise CheckpointError(f"{folder / shard}: the shard is missing; {INDEX} names it.")
        tensors += open_file(folder / shard, is_left_out)
    _check_index(index, weight_map, tensors)
    return tensors


def _check_index(index: Path, weight_map: Mapping[str, str], tensors: list[Tensor]) -> None:
    stored: dict[str, str] = {}
    for tensor in tensors:
        if tensor.name in stored:
            raise CheckpointError(f"{tensor.file}: tensor {tensor.name!r} is also in {stored[tensor.name]}.")
        stored[tensor.name] = tensor.file.name
    for name in sorted(weight_map.keys() | stored.keys()):
        if weight_map.get(name) != stored.get(name):
            raise CheckpointError(
                f"{index}: tensor {name!r} should be in {weight_map.get(name, 'no shard')} "
                f"and is in {stored.get(name, 'no shard')}."
            )


def _transposed(tensor: Tensor) -> Tensor:
    return replace(tensor, shape=tensor.shape[::-1], read=lambda: np.ascontiguousarray(tensor.read().T))
