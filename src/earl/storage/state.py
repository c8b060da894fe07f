"""The state of a learner as a tree: split into tensors and JSON, rebuilt, and compared."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

import torch
from torch import Tensor

from earl.storage.manifest import Json

# A tree of dict (keys str or int), list, tuple, Tensor, int, float, bool, str and None, as returned
# by `state_dict()` of modules, of optimisers and of our own parts. `flatten` refuses all else.
State: TypeAlias = Any

CODES = {  # what safetensors calls them
    **{torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8"},
    **{torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"},
    **{torch.uint8: "U8", torch.bool: "BOOL"},
}


def digest(state: State) -> str:
    """Return the SHA-256 of a state, to compare two of them bit for bit.

    Everything counts but the order of dict keys: values, types, shapes and memory layouts.
    """
    tensors, skeleton = flatten(state)
    sha = hashlib.sha256(json.dumps(skeleton, sort_keys=True).encode())
    for name in sorted(tensors):  # the skeleton tells names, types and shapes, so bytes suffice
        sha.update(raw(tensors[name]))
    return sha.hexdigest()


def copied(state: State) -> State:
    """Return a state of its own, on the CPU, which no later step changes."""
    if isinstance(state, Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(copied(value) for value in state)
    return state


def flatten(state: State) -> tuple[dict[str, Tensor], Json]:
    """Split a state into its tensors, named by their path, and the JSON tree that holds them.

    In the tree None, bool, int, str and finite floats are themselves. All else is an object with
    one key, its kind: dict, list, tuple, tensor, or float for nan, inf and -inf.

    >>> flatten({"w": torch.zeros(2), "betas": (0.9, 0.999)})[1]
    {'dict': {'w': {'tensor': ['float32', [2]]}, 'betas': {'tuple': [0.9, 0.999]}}}
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _skeleton(state, "", tensors)


def unflatten(tensors: Mapping[str, Tensor], skeleton: Json) -> State:
    """Undo `flatten`, with copies of the tensors; ValueError if the two do not belong together."""
    left = dict(tensors)
    del tensors  # each can go as soon as it is copied
    state = _rebuild(skeleton, "", left)
    if left:
        raise ValueError(f"the state has no place for the tensor {min(left)[:80]!r}")
    return state


def _skeleton(node: State, path: str, tensors: dict[str, Tensor]) -> Json:
    if _too_deep(path):
        raise TypeError(f"a snapshot cannot hold {path[:80]}…, it is nested too deeply")
    if isinstance(node, Tensor):
        tensors[path] = node.detach().resolve_neg()
        return {"tensor": _spec(node, path)}
    if isinstance(node, dict):
        keys = {key: _token(key) for key in node}
        return {"dict": {t: _skeleton(node[k], f"{path}/{t}", tensors) for k, t in keys.items()}}
    # From here on exact types: a named tuple or a NumPy float would not come back as what it was.
    if type(node) in (list, tuple):
        children = [_skeleton(v, f"{path}/#{i}", tensors) for i, v in enumerate(node)]
        return {type(node).__name__: children}
    if type(node) is float and not math.isfinite(node):
        return {"float": str(node)}
    if node is None or type(node) in (bool, int, float, str):
        return node  # type: ignore[no-any-return]
    raise TypeError(f"a snapshot cannot hold {path or 'this'}, a {type(node).__name__}")


def _rebuild(node: Any, path: str, tensors: dict[str, Tensor]) -> State:
    """Undo `_skeleton`, taking each tensor out of `tensors`; ValueError if it is none of ours."""
    single = isinstance(node, dict) and len(node) == 1 and not _too_deep(path)
    kind, content = next(iter(node.items())) if single else (None, node)
    match kind, content:
        case None, None | bool() | int() | str():
            return content
        case None, float() if math.isfinite(content):  # 1e999 is infinite
            return content
        case "float", "nan" | "inf" | "-inf":
            return float(content)
        case "tensor", list() if path in tensors:
            return _arranged(tensors.pop(path), content, path)
        case "dict", dict():
            return {_key(t): _rebuild(v, f"{path}/{t}", tensors) for t, v in content.items()}
        case "list" | "tuple", list():
            children = [_rebuild(v, f"{path}/#{i}", tensors) for i, v in enumerate(content)]
            return children if kind == "list" else tuple(children)
    raise ValueError(f"the state is malformed at {path[:80]!r}")


def _too_deep(path: str) -> bool:
    return path.count("/") > 64 or len(path) > 1000


def _token(key: object) -> str:
    """Write a key: numbers as #7, words quoted as in a URL, so that 7 and "7" stay apart."""
    if type(key) is int:
        return f"#{key}"
    if type(key) is str:
        return quote(key, safe="", errors="surrogatepass")
    raise TypeError(f"the keys of a state must be str or int, not {key!r}")


def _key(token: str) -> str | int:
    key = int(token[1:]) if token.startswith("#") else unquote(token, errors="surrogatepass")
    if _token(key) != token:  # so no two tokens give one key
        raise ValueError(f"{token[:80]!r} is not the key of a state")
    return key


def _spec(tensor: Tensor, path: str) -> list[Json]:
    """Describe a tensor: type, shape and, unless it is contiguous, the order of its axes in memory.

    The order matters: a fused optimiser walks through the memory of a parameter and of its moments
    side by side, and moments that come back in another layout give wrong updates.
    """
    if tensor.dtype not in CODES or tensor.layout != torch.strided or tensor.is_meta:
        kind = f"{tensor.dtype}, {tensor.layout}, {tensor.device}"
        raise TypeError(f"a snapshot cannot hold the tensor {path} ({kind})")
    spec: list[Json] = [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
    sizes, strides = tensor.shape, tensor.stride()
    order = sorted(range(tensor.ndim), key=lambda axis: (sizes[axis] > 1, -strides[axis]))
    dense = tensor.permute(order).is_contiguous()  # else a view with gaps: back contiguous
    return [*spec, list(order)] if dense and not tensor.is_contiguous() else spec


def _arranged(tensor: Tensor, spec: list[Any], path: str) -> Tensor:
    """Copy a tensor into the layout of its spec; ValueError if it is another tensor.

    The copy is aligned by torch, the bytes from a file are not, and sums may depend on that.
    """
    axes = list(range(tensor.ndim))
    order = spec[2] if len(spec) == 3 else axes
    known = isinstance(order, list) and sorted(map(repr, order)) == sorted(map(repr, axes))
    if spec[:2] != _spec(tensor, path)[:2] or len(spec) > 3 or not known:
        raise ValueError(f"the tensor {path[:80]!r} is not the one the state expects")
    return torch.empty_permuted(tensor.shape, order, dtype=tensor.dtype).copy_(tensor)


def raw(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor in the order of its elements."""
    flat = tensor.cpu().contiguous()  # yet the stride of an axis of size 1 may be anything
    return flat.as_strided((flat.numel(),), (1,)).view(torch.uint8).numpy().data
