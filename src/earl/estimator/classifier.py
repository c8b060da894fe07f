"""EARLClassifier: for people who have a stream and not a benchmark."""

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from earl.errors import InvalidInput
from earl.estimator import saving
from earl.estimator.conventions import Conventions, check_unchanged, not_fitted, tell_river
from earl.estimator.describing import describe
from earl.estimator.explaining import Neighbour, are_unknown, neighbours, unknown_scores
from earl.estimator.forgetting import forget_key, forget_label, relabel
from earl.estimator.history import LearningCurve
from earl.estimator.keys import Key, check_key
from earl.estimator.labels import as_array, check_label, check_labels
from earl.estimator.model import Model
from earl.estimator.parameters import Parameters
from earl.storage.state import digest


class EARLClassifier(Conventions):
    """Learns labelled images or vectors one by one, may be asked at any moment, and never ends.

    method: a method that need not be told where tasks end; see `earl list methods`.
    backbone: "resnet18" from random weights, "efficientnet-lite0" or "hf:…", which were trained
        before, any nn.Module from images to features, or None if samples are vectors.
    frozen: keep the backbone as it is; None: if trained before; "front": all but its last stage.
    image_size: pixels of a side, to which images are resized; None: as suits the backbone.
    memory_size: samples that are remembered and trained on again.
    max_classes: one label more is refused; None leaves it to the memory of the machine.
    steps_per_sample: training steps for each sample, whole or fractional.
    seed: all that is drawn follows from it.
    device, threads: where to calculate; "auto" and None choose.
    settings: further settings by name, as `earl run --set` takes them: d, k, lr, batch_size, …
    """

    _model: Model | None = None  # made by the first sample
    _home: tuple[str, int] | None = None  # where it was saved or loaded last, and at which step

    def __init__(
        self,
        *,
        method: str = "earl",
        backbone: str | nn.Module | None = "resnet18",
        frozen: bool | str | None = None,
        image_size: int | None = None,
        memory_size: int = 500,
        max_classes: int | None = None,
        steps_per_sample: float = 1.0,
        seed: int = 0,
        device: str = "auto",
        threads: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.backbone = backbone
        self.frozen = frozen
        self.image_size = image_size
        self.memory_size, self.max_classes = memory_size, max_classes
        self.steps_per_sample = steps_per_sample
        self.seed = seed
        self.device = device
        self.threads = threads
        self.settings = settings

    # ---- learning

    def learn_one(self, x: Any, y: Hashable, *, key: Key | None = None) -> None:
        """Learn one sample; with a key it can be relabelled or forgotten later."""
        keys = None if key is None else [check_key(key)]
        self._current().learn([x], [check_label(y)], keys)

    def learn_many(self, X: Any, y: Any, *, keys: Iterable[Key] | None = None) -> None:
        """Learn samples one after the other; if one of them is refused, none is learned."""
        self._learn_batch(self._current(), X, y, keys)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn samples (scikit-learn); `classes` may announce labels, and more may come later."""
        model = self._current()
        announced = None if classes is None else [check_label(c) for c in list(classes)]
        self._learn_batch(model, X, y, None, announced)
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Begin anew and learn the samples in one pass, in their order."""
        model = Model(Parameters(**self.get_params()))
        self._learn_batch(model, X, y, None)
        model.finish()
        self._model, self._home = model, None
        return self

    def _learn_batch(
        self,
        model: Model,
        X: Any,
        y: Any,
        keys: Iterable[Key] | None,
        announced: list[Hashable] | None = None,
    ) -> None:
        samples = model.reader.many(X)
        labels = check_labels(y, len(samples))
        unknown = [c for c in labels if announced is not None and c not in announced]
        if unknown and unknown[0] not in model.labels:
            raise InvalidInput(f"the label {unknown[0]!r} is not among classes; announce it there")
        checked = None if keys is None else [check_key(key) for key in keys]
        if checked is not None and len(checked) != len(samples):
            raise InvalidInput(f"{len(samples)} samples need as many keys, not {len(checked)}")
        model.learn(samples, labels, checked, announced=announced or ())

    # ---- answers

    def predict_one(self, x: Any, *, unknown_below: float | None = None) -> Hashable | None:
        """Return the label of one sample; None before anything was learned, or if unknown."""
        model = self._current()
        if not model.can_answer:
            return None
        tensor = model.read([x])
        if unknown_below is not None and are_unknown(model, tensor, unknown_below)[0]:
            return None
        return model.labels[int(model.numbers(tensor))]

    def predict_proba_one(self, x: Any) -> dict[Hashable, float]:
        """Return the probability of every label that was taught; {} before the first."""
        model = self._current()
        if not model.can_answer:
            return {}
        row = model.probabilities(model.read([x]))[0].tolist()
        return {model.labels[c]: row[c] for c in model.answered()}

    def predict(self, X: Any, *, unknown_below: float | None = None) -> NDArray[Any]:
        """Return the labels of samples, (n,).

        With `unknown_below` the answer is None where 1 - unknown_score is below that.
        """
        model = self._asked()
        x = self._tensor(model, X)
        labels: NDArray[Any] = model.labels.array()[model.numbers(x).numpy()]
        if unknown_below is None:
            return labels
        unknown = are_unknown(model, x, unknown_below)
        pairs = zip(labels.tolist(), unknown, strict=True)
        return as_array([None if strange else label for label, strange in pairs])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities (n, len(classes_)), columns as in `classes_`; not calibrated."""
        model = self._asked()
        return np.asarray(model.probabilities(self._tensor(model, X)).numpy())

    def score(self, X: Any, y: Any) -> float:
        """Return the share of samples whose label is answered."""
        answers = self.predict(X).tolist()
        labels = check_labels(y, len(answers))
        return float(np.mean([a == b for a, b in zip(answers, labels, strict=True)]))

    def unknown_score(self, X: Any) -> NDArray[np.float64]:
        """Return for each sample how far it is from every taught class: 0 at one, 1 at none."""
        model = self._asked()
        return np.asarray(unknown_scores(model, self._tensor(model, X)).numpy())

    def neighbours(self, x: Any) -> list[Neighbour]:
        """Return the remembered samples that corrected the answer about x, with their weights."""
        model = self._asked()
        return neighbours(model, model.read([x]))

    def forget(self, *, key: Key | None = None, label: Hashable = None) -> int:
        """Remove a sample, or all samples of a label, from memory; return how many there were.

        Their features no longer correct answers, and a forgotten label is not answered any more
        until it is learned again. The weights keep the trace of what they were trained on.
        """
        if (key is None) == (label is None):
            raise InvalidInput("say what to forget: either key=... or label=...")
        if key is not None:
            return int(forget_key(self._asked(), key) is not None)
        return forget_label(self._asked(), label)

    def relabel(self, key: Key, label: Hashable) -> None:
        """Give a remembered sample another label: it is forgotten, then learned with that one."""
        relabel(self._asked(), key, label)

    # ---- state

    @property
    def classes_(self) -> NDArray[Any]:
        """All labels in the order of their first appearance; it only ever grows."""
        return self._known().labels.array()

    @property
    def n_features_in_(self) -> int:
        """The length of vectors (scikit-learn)."""
        features = self._known().reader.features
        if features is None:
            raise not_fitted(type(self).__name__)
        return features

    @property
    def history(self) -> LearningCurve:
        """How learning went: accuracy of answers given before each sample was learned."""
        return self._current().curve()

    def describe(self) -> dict[str, Any]:
        """Return facts about the model, fit for JSON: classes, capacity, memory, bytes."""
        return describe(self._current())

    def export_onnx(self, path: str | Path) -> None:
        """Write the model as one ONNX graph, labels included; needs earl-learn[onnx]."""
        from earl.estimator.onnx import export_onnx

        export_onnx(self._current(), Path(path))

    def digest(self) -> str:
        """Return the SHA-256 of all that was learned, to compare two models bit for bit."""
        return digest(self._current().state_dict())

    def save(self, path: str | Path) -> None:
        """Write the model to a directory, whole or not at all; the save before is kept, too."""
        self._home = saving.Save.of(self._current()).write(path, self._home)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        backbone: str | nn.Module | None = None,
        device: str | None = None,
        threads: int | None = None,
    ) -> Self:
        """Return a saved model, which goes on exactly where it was saved."""
        folder = Path(path).expanduser().absolute()
        places = (("device", device), ("threads", threads))
        changed = {name: value for name, value in places if value is not None}
        model, step = saving.load_model(folder, backbone, changed)
        estimator = cls(**vars(model.parameters))
        estimator._model, estimator._home = model, (str(folder), step)
        return estimator

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Save under the name that Hugging Face's libraries use."""
        self.save(save_directory)

    @classmethod
    def from_pretrained(cls, pretrained: str | Path, **options: Any) -> Self:
        """Load under the name that Hugging Face's libraries use; from a local directory only."""
        return cls.load(pretrained, **options)

    def __getstate__(self) -> dict[str, Any]:
        learned = None if self._model is None else saving.packed_state(self._model.state_dict())
        return {"parameters": self.get_params(), "learned": learned, "home": self._home}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state["parameters"])  # type: ignore[misc]  # earlier ones have fewer
        if state["learned"] is not None:
            self._model = Model(Parameters(**state["parameters"]))
            self._model.load_state_dict(saving.unpacked_state(state["learned"]))
            self._home = state["home"]

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None and self._model.can_answer

    def _current(self) -> Model:
        """Return the model, with nothing learned if there is none yet."""
        if self._model is None:
            self._model = Model(Parameters(**self.get_params()))
        else:
            check_unchanged(self.get_params(), self._model.parameters)
        return self._model

    def _known(self) -> Model:
        if self._model is None or not len(self._model.labels):
            raise not_fitted(type(self).__name__)
        return self._model

    def _asked(self) -> Model:
        """Return the model if it can answer."""
        if self._model is None or not self._model.can_answer:
            raise not_fitted(type(self).__name__)
        return self._model

    def _tensor(self, model: Model, X: Any) -> Any:
        return model.read(model.reader.many(X))


tell_river(EARLClassifier)
