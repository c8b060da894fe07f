"""A state that belongs to other images is refused, and the learner stays as it was."""

import pytest

from earl.errors import InvalidSetting
from earl.experiments.experiment import Experiment
from earl.experiments.learners import learner_without_data
from earl.experiments.matching import random_images
from earl.learning.learner import Learner
from earl.storage.state import digest
from kin import CLOSED_FORM, every_method

SMALL, LARGE = (3, 8, 8), (3, 12, 12)
# Of images that went through a frozen network nothing is left but features of one length.
KEEPING = every_method(but=CLOSED_FORM)


def learner_of(name: str, shape: tuple[int, int, int]) -> Learner:
    method, _, replay = name.partition(" with ")
    depth = 8 if method in ("memo", "remind", "nc-fscil") else 4  # some divide their network
    small = {"depth": depth, "width": 4, "iterations": 0.25}
    small |= {"replay": replay} if replay else {}
    experiment = Experiment(method=method, dataset="shapes", stream="disjoint", settings=small)
    return learner_without_data(experiment, shape, samples=30)


@pytest.mark.parametrize("samples", [2, 25])  # still waiting, and after all phases
@pytest.mark.parametrize("name", [*KEEPING, "nc-fscil with class_mean"])
def test_only_the_state_of_such_images_is_taken_and_another_changes_nothing(
    name: str, samples: int
) -> None:
    small, same, large = (learner_of(name, shape) for shape in (SMALL, SMALL, LARGE))
    small.observe(*random_images(SMALL, 2, samples))
    same.load_state_dict(small.state_dict())
    assert digest(same.state_dict()) == digest(small.state_dict())
    large.observe(*random_images(LARGE, 3, 9))
    before = digest(large.state_dict())
    with pytest.raises(InvalidSetting, match=r"belongs to other images\. Nothing was changed"):
        large.load_state_dict(small.state_dict())
    assert digest(large.state_dict()) == before
    large.observe(*random_images(LARGE, 3, 9))
