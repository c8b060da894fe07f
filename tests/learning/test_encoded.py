"""Behind a frozen backbone: images are encoded once, and every method learns from features."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from contract_again import repeated, shorten_networks
from earl.data.dataset import Dataset
from earl.errors import InvalidInput, InvalidSetting
from earl.evaluation.probes import embedding_of
from earl.experiments.catalogue import METHODS
from earl.experiments.contract import CHECKS, maker
from earl.learning import Learner, Setting
from earl.learning.bytes_held import bytes_held
from earl.learning.encoded import Encoded
from earl.learning.encoder import Encoder, on_features
from earl.nn import ResNet, View, build
from earl.randomness import Randomness
from earl.storage.state import digest

SIZE = 16  # features of the small network
# Every method that trains on images as they come; the others want a ResNet or pixels.
EVERY = ("er", "er-mir", "er-memory-only", "ewc", "der++", "earl", "vanilla-etf")
EVERY += ("ncm", "slda", "ranpac", "knn")
GIVEN: Mapping[str, dict[str, object]] = {
    "earl": {
        "d": 20,
        "hidden": 0,
        "preparatory": False,
        "projection": "means",
        "residual_source": "means",
        "tau": 0.05,
    },
    "vanilla-etf": {"d": 15, "hidden": 16},
    "ranpac": {"projected": 64},
}
# These ask for images that were augmented, for ResNets, or for a backbone that learns.
LEFT_OUT = ("every_image_that_is_trained_on_was_augmented", "what_is_frozen_stays_as_it_is")


class Counted(nn.Module):
    """A backbone that counts the images it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.net = build(lambda: ResNet(depth=4, width=16), Randomness(1).at(0, "backbone"))
        self.shown = 0

    def forward(self, x: Tensor) -> Tensor:
        self.shown += len(x)
        out: Tensor = self.net(x)
        return out


def behind(name: str, backbone: nn.Module, setting: Setting, **given: object) -> Encoded:
    own = {k: given.pop(k) for k in list(given) if k == "remembered"}
    encoder = Encoder(backbone, setting, **own)
    return Encoded(encoder, partial(METHODS[name], **GIVEN.get(name, {})))


@pytest.fixture
def setting(dataset: Dataset) -> Setting:
    view = View(dataset.mean, dataset.std)
    return Setting(
        image_shape=dataset.image_shape, view=view, augment=lambda x, _: view(x), memory_size=20
    )


def some(dataset: Dataset, n: int = 30) -> tuple[Tensor, Tensor]:
    rows = torch.arange(n) * 7 % len(dataset.train)
    return dataset.train.images[rows], dataset.train.labels[rows]


@pytest.mark.parametrize("check", repeated("stored_samples_fit_the_memory", without=LEFT_OUT))
@pytest.mark.parametrize(
    "name", ["earl", *(pytest.param(name, marks=pytest.mark.slow) for name in ("er", "slda"))]
)
def test_the_contract_holds_behind_a_frozen_backbone(
    name: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = maker(partial(behind, name, remembered=0))  # weights are changed there behind its back
    if check == "it_learns":
        make = partial(make, iterations=3)  # a random backbone that does not learn
    else:
        shorten_networks(monkeypatch, width=4)  # a wide one would earn thousands of updates
    CHECKS[check](make)


@pytest.mark.parametrize("name", EVERY)
def test_learning_from_images_is_learning_from_their_features(
    name: str, setting: Setting, dataset: Dataset
) -> None:
    """The same method handed features that were calculated elsewhere ends in the same state."""
    x, y = some(dataset)
    learner = behind(name, Counted(), setting)
    alone = METHODS[name](nn.Flatten(), on_features(setting, (SIZE, 1, 1)), **GIVEN.get(name, {}))
    other = Counted().eval()
    for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
        learner.observe(x_i, y_i)
        with torch.inference_mode():
            h = other(setting.view(x_i))[:, :, None, None]
        alone.observe(h.clone(), y_i)
    kept, states = learner.state_dict(), alone.state_dict()
    for state in (kept, states):
        state.pop("work")  # one of them has also encoded
        state.pop("backbone", None)
    assert digest(kept) == digest(states)


def test_memory_holds_features_and_their_bytes_are_counted(
    setting: Setting, dataset: Dataset
) -> None:
    x, y = some(dataset)
    learner = behind("er", Counted(), setting)
    learner.observe(x, y)
    held = bytes_held(learner)
    assert held["images"] == 20 * SIZE * 4
    assert held["waiting"] == 8 * SIZE * 4
    backbone = sum(t.nbytes for t in (*Counted().parameters(), *Counted().buffers()))
    head = 32 * (SIZE + 1) * 4
    assert held["network"] == backbone + head


def test_an_image_that_was_asked_about_is_not_encoded_again_to_be_learned(
    setting: Setting, dataset: Dataset
) -> None:
    x, y = some(dataset)
    backbone = Counted()
    learner = behind("ncm", backbone, setting)
    learner.observe(x[:1], y[:1])  # which also finds out what a pass costs
    backbone.shown = 1
    for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
        learner.predict(x_i)
        learner.observe(x_i, y_i)
        learner.predict(x_i)
    assert backbone.shown == len({image.numpy().tobytes() for image in x})


@pytest.mark.parametrize("remembered", [0, 3])
def test_only_so_many_features_are_remembered(
    remembered: int, setting: Setting, dataset: Dataset
) -> None:
    x, _ = some(dataset, 6)
    backbone = Counted()
    learner = behind("ncm", backbone, setting, remembered=remembered)
    learner.encode(x[:5])
    backbone.shown = 0
    learner.encode(x[:5])
    assert backbone.shown == 5 - remembered


def test_a_backbone_is_frozen_whatever_it_was(setting: Setting, dataset: Dataset) -> None:
    backbone = Counted().train()
    before = digest(backbone.state_dict())
    learner = behind("er", backbone, setting)
    learner.observe(*some(dataset))
    assert digest(backbone.state_dict()) == before
    assert not any(p.requires_grad for p in backbone.parameters())
    assert not any(part.training for part in backbone.modules())


def test_encoding_is_counted_at_its_price(setting: Setting, dataset: Dataset) -> None:
    x, y = some(dataset)
    learner = behind("ncm", Counted(), setting)
    learner.observe(x, y)
    costs = learner.costs()
    assert costs["encoded"] == len(y)
    assert costs["flops"] >= len(y) * learner.work.flops_per_input("encoded") > 0


def test_the_learner_behind_can_still_be_looked_into(setting: Setting, dataset: Dataset) -> None:
    x, y = some(dataset)
    learner = behind("er", Counted(), setting)
    learner.observe(x, y)
    behind_it = embedding_of(learner)
    assert behind_it is not None
    torch.testing.assert_close(behind_it.features(x), learner.encode(x).flatten(1))
    assert behind_it.vectors().shape == (len(learner.classes), SIZE)


class Maps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_a_backbone_without_features_is_refused(setting: Setting) -> None:
    with pytest.raises(InvalidSetting, match="global pooling"):
        behind("ncm", Maps(), setting)


def test_a_state_from_before_a_frozen_backbone_is_refused(
    setting: Setting, dataset: Dataset, make: Callable[..., Learner]
) -> None:
    learner = behind("er", Counted(), setting)
    learner.observe(*some(dataset))
    before = digest(learner.state_dict())
    with pytest.raises(InvalidSetting, match="no backbone"):
        learner.load_state_dict(make("er").state_dict())
    assert digest(learner.state_dict()) == before


def test_images_of_another_size_are_refused_before_they_are_encoded(
    setting: Setting, dataset: Dataset
) -> None:
    learner = behind("ncm", Counted(), replace(setting))
    x, y = some(dataset)
    with pytest.raises(InvalidInput, match="shape"):
        learner.observe(x[:, :, 1:], y)


class Shared(dict[bytes, Tensor]):
    """What an encoder knows, from which another thread drives out all that is looked for."""

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        self.clear()
        return found


def test_what_another_thread_drives_out_meanwhile_is_encoded_again(setting: Setting) -> None:
    encode = Encoder(nn.Flatten(), setting)
    images = torch.arange(4, dtype=torch.uint8).view(4, 1, 1, 1).expand(4, *setting.image_shape)
    expected = encode(images)
    encode.known = Shared(encode.known)
    assert torch.equal(encode(images), expected)
