"""Saving and loading: a model as a directory of snapshots, the same that runs have."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import torch
from torch import nn

import earl
from earl.errors import EarlError, InvalidSetting, NotFinite, SnapshotError
from earl.estimator.model import Model
from earl.estimator.parameters import Parameters
from earl.nn import learning, let_learn
from earl.nn.backbones.catalogue import at_any_place
from earl.nn.finite import check_finite
from earl.storage.files import lock_directory
from earl.storage.manifest import Json, newest_step, read_about
from earl.storage.snapshot import read_newest, write_snapshot
from earl.storage.state import State, flatten, unflatten

KIND = "EARLClassifier"
OWN = "own module"  # stands for a backbone that the user gave
MATRIX = "1.1.linear.weight"  # of a network whose features pass a matrix behind their class means

Home: TypeAlias = tuple[str, int]  # a directory, and the newest step there that a model knows


@dataclass(frozen=True)
class Save:
    """A model as it is at a moment, to be written."""

    step: int
    state: State
    about: dict[str, Json]

    @classmethod
    def of(cls, model: Model) -> Self:
        """Return the model as of now; copy the state if learning goes on before it is written."""
        about: dict[str, Json] = {"kind": KIND, "earl": earl.__version__, **summary(model)}
        return cls(model.changes, model_state(model), about)

    def write(self, path: str | Path, home: Home | None) -> Home:
        """Write it to a directory; `home` is where the model was saved or loaded last.

        What another model has saved there is never overwritten: that is a SnapshotError.
        """
        folder = Path(path).expanduser().absolute()
        known = home[1] if home and home[0] == str(folder) else -1
        if folder.exists() and not folder.is_dir():
            raise SnapshotError(f"{folder} is a file; choose another place for the model")
        with lock_directory(folder):
            if newest_step(folder) not in (-1, known, self.step):
                raise SnapshotError(
                    f"{folder} holds another model, or a later state of this one; load it to go on "
                    "with it, or choose another directory. Nothing was written"
                )
            write_snapshot(folder, self.step, self.state, about=self.about)
        return str(folder), self.step


def summary(model: Model) -> dict[str, Json]:
    """Return what can be told of a saved model without reading its tensors."""
    return {"samples": model.history.all.samples, "classes": len(model.labels)}


def model_state(model: Model) -> dict[str, Any]:
    """Return everything that a model is, code excepted."""
    parameters = vars(model.parameters) | {"settings": dict(model.parameters.settings or {})}
    state: dict[str, Any] = {"parameters": parameters, "model": model.state_dict(), "trained": None}
    if isinstance(model.parameters.backbone, str):
        parameters["backbone"] = at_any_place(model.parameters.backbone)
    if isinstance(model.parameters.backbone, nn.Module):
        parameters["backbone"] = f"{OWN}: {type(model.parameters.backbone).__name__}"
        state["trained"] = learning(model.parameters.backbone)
    return state


def packed_state(state: State) -> tuple[Any, Any]:
    """Return a state for a pickle of the user's, in which the same state gives the same bytes."""
    tensors, skeleton = flatten(state)
    return {name: tensor.cpu().contiguous().numpy() for name, tensor in tensors.items()}, skeleton


def unpacked_state(packed: tuple[Any, Any]) -> State:
    """Undo `packed_state`."""
    arrays, skeleton = packed
    return unflatten({name: torch.from_numpy(a) for name, a in arrays.items()}, skeleton)


def load_model(
    path: Path, backbone: str | nn.Module | None = None, changed: Mapping[str, Any] | None = None
) -> tuple[Model, int]:
    """Return the newest whole model in a directory, and the step that it was saved at.

    A module of the user's is no part of the files, only its numbers are: it must be given again.
    """
    if not path.is_dir():
        raise SnapshotError(f"there is no model at {path}; save one there first")
    about = read_about(path)
    if about is not None and about[1].get("kind") != KIND:
        raise SnapshotError(f"{path} holds no EARLClassifier but something else of earl's")
    snapshot = read_newest(path)
    if snapshot is None:
        raise SnapshotError(f"{path} holds no saved model")
    return model_from(snapshot.state, backbone, changed or {}), snapshot.step


def model_from(
    state: Mapping[str, Any], backbone: str | nn.Module | None, changed: Mapping[str, Any]
) -> Model:
    """Return a model from what `model_state` gave."""
    try:
        fields = dict(state["parameters"]) | dict(changed)
        fields["settings"] = settings_then(fields["settings"], state["model"]["learner"])
        if str(fields["backbone"]).startswith(OWN):
            fields["backbone"] = given_again(fields["backbone"], state, backbone)
        elif isinstance(backbone, str):
            fields["backbone"] = backbone  # it may have moved; its weights are compared
        elif backbone is not None:
            raise InvalidSetting(f"the model was saved with backbone = {fields['backbone']!r}")
        model = Model(Parameters(**fields))
        model.load_state_dict(state["model"])
        if model.learner is not None:
            check_finite(model.learner.parts())
        if "threads" in changed:
            model.threads = changed["threads"] or 0
        return model
    except NotFinite as error:
        raise SnapshotError(f"the saved model is of no use: {error}") from error
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RuntimeError) as error:
        if isinstance(error, EarlError):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        if backbone is not None:
            raise InvalidSetting(
                f"this backbone is not built like the saved one ({what})"
            ) from None
        raise SnapshotError(f"the saved model does not fit this earl ({what})") from error


def settings_then(
    settings: Mapping[str, Any] | None, learner: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a saved model's settings; one of features may be older than `projection=means`.

    Then a matrix is stored, and it is what it was, however such matrices are drawn by now.
    """
    older = learner is not None and MATRIX in learner.get("network", {})
    return {**(settings or {}), **({"projection": "random"} if older else {})}


def given_again(
    stored: str, state: Mapping[str, Any], backbone: str | nn.Module | None
) -> nn.Module:
    """Return the user's module, frozen where it was; InvalidSetting if it is none or another."""
    name = stored.removeprefix(f"{OWN}: ")
    if not isinstance(backbone, nn.Module):
        raise InvalidSetting(
            f"the model was saved with a backbone of your own ({name}), whose code no file holds; "
            f"give it again: load(path, backbone={name}(...))"
        )
    backbone, flags = copy.deepcopy(backbone), state["trained"]
    if len(flags) != len(list(backbone.parameters())):
        raise InvalidSetting(
            f"the model was saved with a {name} of {len(flags)} parameters, this backbone has "
            f"{len(list(backbone.parameters()))}; give one that is built alike"
        )
    let_learn(backbone, flags)
    return backbone
