"""Writes an adapter as PEFT's ``save_pretrained`` does, without PEFT.

What PEFT needs to know travels with the model: its config, and the names that it gives
to the adapter's tensors. Whoever makes version 0 has put them there.
"""

import json
from pathlib import Path
from typing import Any

from fedcore.errors import IMPOSSIBLE, ModelError
from fedcore.params import ADAPTER, ParamSpec, Rest
from fedcore.text import brief
from fedcore.typing import Vector
from fedrun.durable import make_folder
from fedrun.files import save_arrays
from fedrun.json_text import read_json
from fedrun.plain_files import write_text


def save_adapter(
    folder: Path, spec: ParamSpec, flat_D: Vector, rest: Rest, whose: str
) -> None:
    """Writes ``adapter_config.json`` and ``adapter_model.safetensors``.

    Args:
        folder: is made, where it is missing.
        spec: of the model's flat vector.
        flat_D: what is trained of the adapter, shape (D,).
        rest: what is not, and what is known of the adapter.
        whose: names the run, for messages.

    Raises:
        ModelError: the model is no adapter, or trains something beside it.
    """
    if ADAPTER not in rest.about:
        raise ModelError(
            f"{whose}: its model is no PEFT adapter, so there is none to export; leave "
            "out --adapter, and -o FILE writes the model"
        )
    names, config = _about(rest.about[ADAPTER], whose)
    tensors = {**rest.frozen, **spec.unflatten(flat_D)}
    for name in tensors:
        if name not in names:
            raise ModelError(
                f"{whose}: tensor {name!r} is trained and is not a part of the "
                "adapter; leave out --adapter, and -o FILE writes all that is trained"
            )
    if missing := names.keys() - tensors.keys():
        raise ModelError(f"{whose}: the adapter's tensor {min(missing)!a} is missing")
    make_folder(folder)
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    write_text(folder / "adapter_config.json", text)
    arrays = {theirs: tensors[ours] for ours, theirs in names.items()}
    path = folder / "adapter_model.safetensors"
    save_arrays(path, arrays, {"format": "pt"}, private=False)


def _about(text: str, whose: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns PEFT's names of tensors by ours, and the config of an adapter.

    Raises:
        ModelError: they cannot be read.
    """
    try:
        about = read_json(text)
        names, config = about["names"], about["config"]
        if not (isinstance(config, dict) and all(map(str.isprintable, names.values()))):
            raise ValueError("expected names and a config")
    except IMPOSSIBLE as error:
        raise ModelError(
            f"{whose}: what it says of its adapter cannot be read: {brief(str(error))}"
        ) from error
    return names, config
