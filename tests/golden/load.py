"""Reads the golden files that lie beside this module."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.payloads import (
    Payload,
    Term,
    block_payload,
    dense_payload,
    half_payload,
    levels_payload,
    low_rank_payload,
    natural_payload,
    parts_payload,
    quantised_payload,
    rotated_payload,
    seeded_payload,
    semi_discrete_payload,
    sign_payload,
    sparse_payload,
    values_payload,
)


def golden(name: str) -> Any:
    """What a golden file holds."""
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text())


def golden_bytes(entry: Any) -> bytes:
    """The message that an entry of payloads.json spells out."""
    return bytes.fromhex(entry["hex"].replace("|", ""))


def golden_payload(entry: Any) -> Payload:
    """The same message, made of its arrays."""
    layout, arrays = tuple(entry["layout"]), entry["arrays"]
    dim = sum(layout)
    values = np.array(arrays.get("values", []), np.float32)
    match entry["format"]:
        case "dense":
            return dense_payload(values)
        case "sparse":
            return sparse_payload(dim, np.array(arrays["indices"], np.int64), values)
        case "values":
            return values_payload(dim, np.array(arrays["indices"], np.int64), values)
        case "levels":
            indices = np.array(arrays["indices"], np.int64)
            steps = np.array(arrays["steps"], np.float32)
            parts = layout if len(steps) > 1 else (dim,)
            levels = np.array(arrays["levels"], np.int32)
            return levels_payload(dim, indices, levels, steps, parts)
        case "seeded":
            return seeded_payload(dim, np.array(arrays["seed"], np.uint64), values)
        case "sign":
            scales = np.array(arrays["scales"], np.float32)
            parts = layout if len(scales) > 1 else (dim,)
            return sign_payload(np.array(arrays["positive"], bool), scales, parts)
        case "quantised":
            steps = np.array(arrays["steps"], np.float32)
            levels = np.array(arrays["levels"], np.int8)
            grid = arrays["width"], arrays["bucket"]
            return quantised_payload(dim, *grid, steps, levels)
        case "half":
            return half_payload(values, arrays["kind"])
        case "natural":
            return natural_payload(values)
        case "rotated":
            scales = np.array(arrays["scales"], np.float32)
            signs = np.resize(np.array(arrays["positive"], bool), 256)
            inner = sign_payload(signs, scales, (256,))
            return rotated_payload(dim, np.array(arrays["seed"], np.uint64), inner)
        case "low_rank":
            return low_rank_payload(*(np.array(arrays[name], "f4") for name in "pq"))
        case "semi_discrete":
            terms = [
                Term(tensor, code, np.array(x, np.int8), np.array(y, np.int8))
                for tensor, code, x, y in arrays["terms"]
            ]
            return semi_discrete_payload(layout, terms, arrays["step"])
        case "block":
            return block_payload(dim, arrays["start"], golden_payload(arrays["inner"]))
        case "parts":
            messages = [golden_payload(each) for each in arrays["messages"]]
            return parts_payload(layout, arrays["groups"], messages)
        case unknown:
            raise ValueError(f"golden_payload has no case for format {unknown!r}")
