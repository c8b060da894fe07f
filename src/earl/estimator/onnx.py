"""A model as one ONNX graph: view, backbone, projection, class vectors, residual correction.

Needs the extra `onnx`. What a graph cannot hold, such as learning, stays behind.
"""

import copy
import importlib.util
import json
import logging
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidInput, InvalidSetting
from earl.estimator.eye import EyeReader
from earl.estimator.labels import encode
from earl.estimator.model import Model
from earl.estimator.vectors import VectorReader
from earl.methods.earl import EARL
from earl.methods.earl.residuals import EMPTY
from earl.nn import Classifier
from earl.nn.backbones.views import ProcessedView
from earl.randomness import Randomness

OUTPUTS = ("scores", "probabilities", "index")
CLOSE = 1e-4  # how far scores of the graph may be from ours
TRIED = 4  # samples that both answer before a file is written


class Answer(nn.Module):
    """From raw samples to scores, probabilities and the index of the label, by one forward pass."""

    answered: Tensor  # columns of the scores that may be answered
    W: Tensor
    h_hat: Tensor
    w_y: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        learner = model.learner
        assert learner is not None
        reader = model.reader
        eye = reader.encode if isinstance(reader, EyeReader) else None
        if eye is not None and isinstance(eye.setting.view, ProcessedView):
            raise InvalidSetting(
                f"backbone = {eye.name!r} has its images prepared outside of torch, which no graph "
                "can hold; efficientnet-lite0 and modules of your own can be exported"
            )
        self.eye = None if eye is None else copy.deepcopy(eye.network)
        self.shape, self.view = reader.shape, (eye or learner).setting.view
        self.sharp = model.sharpness
        answered = [n for n, c in enumerate(model.taught().tolist()) if c not in model.forgotten]
        self.register_buffer("answered", torch.tensor(answered))
        network = learner.parts().get("network")
        self.corrects = isinstance(learner, EARL) and learner.correction
        if isinstance(learner, EARL):
            self.network: nn.Module = learner.f
            self._take_vectors(learner)
        elif isinstance(network, Classifier):
            self.network = network
        else:
            method = model.parameters.method
            raise InvalidSetting(f"method = {method!r} answers by more than one graph can hold")

    def _take_vectors(self, learner: EARL) -> None:
        self.k, self.tau = learner.k, learner.tau
        self.register_buffer("W", learner.vectors().clone())
        if self.corrects:
            h_hat, y = learner.pairs()
            rows = (y != EMPTY).nonzero().flatten()
            self.register_buffer("h_hat", h_hat[rows.to(h_hat.device)].clone())
            self.register_buffer("w_y", self.W[y[rows].to(self.W.device)])
            self.corrects = len(rows) > 0

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        seen = self.view(x)
        if self.eye is not None:
            seen = self.eye(seen)
        if self.shape[1:] == (1, 1):  # features, and not maps
            seen = seen.reshape(-1, *self.shape)
        scores = self.scores(seen).index_select(1, self.answered)
        return scores, torch.softmax(self.sharp * scores, dim=1), scores.argmax(dim=1)

    def scores(self, x: Tensor) -> Tensor:
        out: Tensor = self.network(x)
        if not hasattr(self, "W"):
            return out
        f_hat = F.normalize(out, dim=1)
        return (self.corrected(f_hat) if self.corrects else f_hat) @ self.W.T

    def corrected(self, f_hat: Tensor) -> Tensor:
        """Return features (B, d) moved by the residuals of their nearest ones, Eq. (5), (6)."""
        distance = (2 - 2 * f_hat @ self.h_hat.T).clamp(min=0).sqrt()
        near, nearest = distance.topk(min(self.k, len(self.h_hat)), dim=1, largest=False)
        s = torch.softmax(-near / self.tau, dim=1)
        residuals = self.w_y - self.h_hat  # (N, d)
        return f_hat + (s[:, :, None] * residuals[nearest]).sum(dim=1)


def export_onnx(model: Model, path: Path) -> Path:
    """Write the model as one ONNX file, checked against our own answers; return its path.

    Its input is `x`: images uint8 (B, 3, size, size), or vectors float32 (B, features). The labels
    are in the metadata, as JSON, in the order of the scores.
    """
    if importlib.util.find_spec("onnxscript") is None:
        raise InvalidSetting('ONNX files need an extra: pip install "earl-learn[onnx]"')
    if not model.can_answer:
        raise InvalidInput("the model has learned nothing yet that could be exported")
    answer = Answer(model).to("cpu").eval()
    raw = examples(model)
    check_answers(model, answer, raw)
    with warnings.catch_warnings(), quiet("torch.onnx"), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter warns about itself
        program = torch.onnx.export(
            answer,
            (raw,),
            dynamo=True,
            verbose=False,
            input_names=["x"],
            output_names=list(OUTPUTS),
            dynamic_shapes={"x": {0: torch.export.Dim("batch")}},
        )
    assert program is not None
    answered = [model.labels[c] for c in model.answered()]
    program.model.metadata_props["labels"] = json.dumps([encode(label) for label in answered])
    program.model.metadata_props["method"] = model.parameters.method
    new = path.with_name(f".{path.name}.new")
    try:
        program.save(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return path


def examples(model: Model) -> Tensor:
    """Return a few samples of noise as the graph takes them."""
    draw = Randomness(0).at(0, "examples")
    reader = model.reader
    if isinstance(reader, VectorReader):
        return torch.randn(TRIED, reader.length, generator=draw)
    shape = reader.images.shape if isinstance(reader, EyeReader) else reader.shape
    return torch.randint(256, (TRIED, *shape), generator=draw, dtype=torch.uint8)


def check_answers(model: Model, answer: Answer, raw: Tensor) -> None:
    """Raise InvalidSetting unless the module to be exported answers as the model does."""
    ours = model.scores(model.read(list(raw)))[:, answer.answered].cpu()
    with torch.no_grad():
        theirs, _, _ = answer(raw)
    if ours.shape != theirs.shape or not torch.allclose(ours, theirs, atol=CLOSE):
        method = model.parameters.method
        raise InvalidSetting(f"method = {method!r} answers by more than one graph can hold")


class quiet:
    """Context in which a logger says nothing but errors."""

    def __init__(self, name: str) -> None:
        self.logger = logging.getLogger(name)

    def __enter__(self) -> None:
        self.before = self.logger.level
        self.logger.setLevel(logging.ERROR)

    def __exit__(self, *exception: object) -> None:
        self.logger.setLevel(self.before)
