"""What every method must keep, whatever it does inside; and checks that notice if one does not."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from earl.errors import ContractBroken, EarlError
from earl.experiments.catalogue import METHODS
from earl.experiments.contract import CHECKS, check_method, fault, maker
from earl.learning.learner import Learner, Stateful
from earl.learning.memory import Memory
from earl.learning.passes import forward
from earl.learning.policies import reservoir
from earl.learning.setting import Setting
from earl.learning.work import Work
from earl.methods.earl.negatives import NEGATIVES
from earl.methods.er import ER
from earl.nn.resnet import ResNet
from earl.storage.state import digest
from kin import every_method
from small_networks import DIVIDED, ONE_BLOCK

DOCS = Path(__file__).parents[2] / "docs" / "methods"
Make = Callable[..., Learner]
each = pytest.mark.parametrize("name", every_method())


SHORTER = dict.fromkeys(("memo", "remind", "nc-fscil"), DIVIDED)
SHORTER |= {"er": {"depth": 8, "width": 4}}  # as that of `check_method`, and its faults below


def shorter(name: str, **given: int) -> ResNet:
    return ResNet(**SHORTER.get(name, ONE_BLOCK))


@each
@pytest.mark.parametrize("check", CHECKS)
def test_the_contract(name: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("earl.experiments.contract.guards.ResNet", partial(shorter, name))
    CHECKS[check](maker(METHODS[name]))


def unchecked(loss: Tensor, optimizer: torch.optim.Optimizer, _: Work) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Wrong(ER):
    """ER with one fault at a time."""

    def __init__(self, backbone: torch.nn.Module, setting: Setting, *, fault: str) -> None:
        super().__init__(backbone, setting)
        self.fault = fault
        if fault == "thaws":
            self.network.requires_grad_(True)
        if fault == "keeps too much":
            self.memory = Memory(setting.memory_size + 1, reservoir)
        if fault == "trains on images as they are":
            self.setting = replace(setting, augment=lambda x, _: setting.view(x))

    def check(self, x: Tensor, y: Tensor) -> None:
        if self.fault == "never gives up":
            self.setting.check_samples(x, y)
        elif self.fault != "accepts anything":
            super().check(x, y)

    def observe(self, x: Tensor, y: Tensor) -> None:
        if self.fault == "accepts anything" and not isinstance(y, Tensor):
            return
        super().observe(x, y)
        if self.fault == "changes its input":
            y.fill_(0)
        if self.fault == "keeps what it is handed":
            self.waiting.x = [x[i : i + 1] for i in range(len(x))][-len(self.waiting.x) :]
        if self.fault == "trains without being owed it":
            super()._update(x, self.classes.index(y))
        if self.fault == "trains once per call":
            self.pace.samples = len(y)
        if self.fault == "counts nothing":
            self.work.flops = 0

    def _update(self, X: Tensor, Y: Tensor) -> None:
        if self.fault == "has views of its own":  # of each image, and says nothing of it
            forward(self.network, self.setting, self.setting.view(X))
        if self.fault == "draws globally":
            torch.rand(1)
        if self.fault == "drifts":
            self.network.train()(self.setting.view(X))
        if self.fault == "cannot stand a single image" and self.setting.batch_size == 1:
            raise RuntimeError("one image is no batch")
        if self.fault in ("trains in spite of nan", "takes every step"):
            with mock.patch("earl.methods.er.descend", unchecked):
                super()._update(X, Y)
        elif self.fault != "learns nothing":
            super()._update(X, Y)
        else:
            self.work.add(images=len(Y))

    def scores(self, x: Tensor) -> Tensor:
        if self.fault == "learns when asked" and len(self.memory):
            self._update(*self.memory.take(torch.arange(1), "x", "y"))
        z = super().scores(x)
        return torch.cat((z, z[:, :1] + 9), dim=1) if self.fault == "one class too many" else z

    def predict(self, x: Tensor) -> Tensor:
        if self.fault == "guesses" and not len(self.classes):
            return torch.zeros(len(x))
        if self.fault.endswith("in spite of nan") and len(self.classes):
            return self.classes.ids(self.scores(x).argmax(dim=1))
        return super().predict(x)

    def end_task(self) -> None:
        if self.fault == "breaks at boundaries":
            self.network.head.weight.data.fill_(float("nan"))

    def parts(self) -> Mapping[str, Stateful]:
        parts = dict(super().parts())
        if self.fault == "forgets what waits":
            del parts["waiting"]
        return parts


FAULTS = {
    "guesses": "nothing_is_known_before_the_first_sample",
    "one class too many": "only_seen_classes_are_predicted",
    "learns when asked": "asking_changes_nothing",
    "changes its input": "observing_leaves_its_input_alone",
    "keeps what it is handed": "callers_may_reuse_their_buffers",
    "trains without being owed it": "updates_follow_the_iterations",
    "trains once per call": "many_samples_at_once_equal_one_by_one",
    "keeps too much": "stored_samples_fit_the_memory",
    "draws globally": "the_seed_decides_everything",
    "forgets what waits": "a_saved_learner_goes_on_exactly",
    "learns nothing": "it_learns",
    "trains on images as they are": "every_image_that_is_trained_on_was_augmented",
    "has views of its own": "every_image_that_is_trained_on_was_augmented",
    "counts nothing": "updates_follow_the_flops_that_are_earned",
    "cannot stand a single image": "tiny_settings_work",
    "breaks at boundaries": "boundaries_and_early_ends_are_harmless",
    "thaws": "what_is_frozen_stays_as_it_is",
    "drifts": "what_is_frozen_stays_as_it_is",
    "accepts anything": "bad_input_is_refused_and_changes_nothing",
    "answers in spite of nan": "numbers_that_are_none_are_not_answered",
    "trains in spite of nan": "numbers_that_are_none_are_not_answered",
    "takes every step": "a_step_that_is_not_finite_is_undone",
    "never gives up": "learning_ends_where_no_step_is_taken",
}


@pytest.mark.parametrize(("wrong", "check"), FAULTS.items())
def test_a_fault_is_noticed(wrong: str, check: str) -> None:
    """ER itself, without a fault, passes every check above."""
    assert fault(CHECKS[check], maker(Wrong, fault=wrong))


def test_every_check_has_a_fault_that_it_notices() -> None:
    assert set(FAULTS.values()) == set(CHECKS)


AUGMENTED = "every_image_that_is_trained_on_was_augmented"


@pytest.mark.parametrize("negative", NEGATIVES)
@pytest.mark.parametrize("count", ["inside", "on-top"])
def test_preparatory_images_of_any_kind_are_made_of_augmented_ones(
    negative: str, count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partners that are mixed in as well; noise is made of nothing, and the method says so."""
    monkeypatch.setattr("earl.experiments.contract.guards.ResNet", partial(shorter, 1))
    make = maker(METHODS["earl"], negative=negative, preparatory_count=count)
    assert (make().own_views > 0) == (negative == "noise")
    CHECKS[AUGMENTED](make)


@pytest.mark.parametrize("name", ["scr", "x-der"])
@pytest.mark.parametrize("kept", [0, 2])
def test_views_of_their_own_do_not_hide_images_as_they_are(name: str, kept: int) -> None:
    """Neither where nothing is augmented nor where all of a batch but two images is not."""

    def careless(backbone: torch.nn.Module, setting: Setting) -> Learner:
        def augment(x: Tensor, generator: torch.Generator) -> Tensor:
            augmented = setting.augment(x, generator)
            return torch.cat((augmented[:kept], setting.view(x[kept:])))

        return METHODS[name](backbone, replace(setting, augment=augment))

    assert "did not come from `augment`" in fault(CHECKS[AUGMENTED], maker(careless))


@pytest.mark.parametrize("name", ["remind", "nc-fscil"])
@pytest.mark.parametrize(
    "check",
    [
        "many_samples_at_once_equal_one_by_one",
        "the_seed_decides_everything",
        "a_saved_learner_goes_on_exactly",
        "updates_follow_the_flops_that_are_earned",
        "tiny_settings_work",
    ],
)
def test_the_contract_with_an_augmented_stream(
    name: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("earl.experiments.contract.guards.ResNet", partial(shorter, name))
    CHECKS[check](maker(METHODS[name], augment_stream=True, base=8))


def test_all_faults_are_told() -> None:
    with pytest.raises(ContractBroken, match="failed") as broken:
        check_method(Wrong, fault="learns nothing")
    assert "it_learns: ContractBroken: accuracy 0." in str(broken.value)


dtypes = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
dtypes += [torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.complex64]
any_dtype = st.sampled_from(dtypes)
any_shape = st.lists(st.sampled_from([0, 1, 2, 3, 8, 9]), max_size=5)
images = st.sampled_from([[1, 3, 8, 8], [2, 3, 8, 8]])  # as they should be
integers = st.sampled_from([torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])


@each
@settings(max_examples=40)
@given(
    st.just(torch.uint8) | st.just(torch.uint8) | any_dtype,
    images | images | any_shape,
    integers | integers | any_dtype,
    st.none() | st.none() | any_shape,  # none: as many labels as images
    st.integers(-3, 5) | st.integers(-3, 300),
)
def test_any_call_is_accepted_or_refused_by_the_contract(
    make: Make,
    name: str,
    x_dtype: torch.dtype,
    x_shape: list[int],
    y_dtype: torch.dtype,
    y_shape: list[int] | None,
    label: int,
) -> None:
    """No other exception, and no change of state on refusal, for arbitrary tensors."""
    if name not in CALLED:
        CALLED[name] = state_of(make(name))
    learner, before = CALLED[name]
    y_shape = x_shape[:1] if y_shape is None else y_shape
    x = torch.zeros(x_shape).to(x_dtype)
    y = torch.full(y_shape, label).to(y_dtype)
    right_x = x_dtype == torch.uint8 and x_shape[1:] == [3, 8, 8] and x_shape[:1] not in ([], [0])
    integer = y_dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    fits = right_x and integer and y_shape == x_shape[:1] and int(y.min()) >= 0
    try:
        learner.observe(x, y)
    except EarlError:
        assert not fits or len(learner.classes) >= 10
        assert digest(learner.state_dict()) == before
    else:
        assert fits
        CALLED[name] = state_of(learner)


CALLED: dict[str, tuple[Learner, str]] = {}


def state_of(learner: Learner) -> tuple[Learner, str]:
    """Return a learner with the digest of what it is now."""
    return learner, digest(learner.state_dict())


@each
def test_the_docstring_names_the_paper_and_there_is_a_page(name: str) -> None:
    method = METHODS[name]
    kind = getattr(method, "func", method)
    assert inspect.isclass(kind) and "Paper:" in (kind.__doc__ or "")
    page = (DOCS / f"{Path(inspect.getfile(kind)).stem}.md").read_text(encoding="utf-8")
    assert f"`{name}`" in page
    assert "Differences" in page
