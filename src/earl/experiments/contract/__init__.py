"""The contract: what every method must keep, as checks that anyone can run."""

from collections.abc import Callable, Mapping
from typing import Any

from earl.errors import ContractBroken
from earl.experiments.catalogue import METHODS
from earl.experiments.contract import checks, guards, steps
from earl.experiments.contract.checks import DATA, Make
from earl.experiments.contract.guards import small_backbone
from earl.experiments.options import options_of
from earl.experiments.recipes import Value, recipe
from earl.learning.learner import Learner
from earl.learning.setting import Setting
from earl.nn.augment import Augment, View

CHECKS: Mapping[str, Callable[[Make], None]] = {
    check.__name__: check
    for check in (
        checks.nothing_is_known_before_the_first_sample,
        checks.only_seen_classes_are_predicted,
        checks.asking_changes_nothing,
        checks.observing_leaves_its_input_alone,
        checks.callers_may_reuse_their_buffers,
        checks.many_samples_at_once_equal_one_by_one,
        checks.stored_samples_fit_the_memory,
        checks.the_seed_decides_everything,
        checks.a_saved_learner_goes_on_exactly,
        checks.it_learns,
        checks.every_image_that_is_trained_on_was_augmented,
        checks.updates_follow_the_iterations,
        checks.updates_follow_the_flops_that_are_earned,
        checks.tiny_settings_work,
        checks.boundaries_and_early_ends_are_harmless,
        guards.what_is_frozen_stays_as_it_is,
        guards.bad_input_is_refused_and_changes_nothing,
        guards.numbers_that_are_none_are_not_answered,
        steps.a_step_that_is_not_finite_is_undone,
        steps.learning_ends_where_no_step_is_taken,
    )
}


def check_method(method: str | Callable[..., Learner], **options: Value) -> tuple[str, ...]:
    """Check that a method, by name or as a class, keeps the contract; return what was checked.

    Its learners are small and see four classes of 8-pixel images; `options` are the method's own.
    All checks are made, then `ContractBroken` tells which did not hold.
    """
    make = maker(METHODS[method] if isinstance(method, str) else method, **options)
    found = {name: fault(check, make) for name, check in CHECKS.items()}
    broken = [f"{name}: {what}" for name, what in found.items() if what]
    if broken:
        raise ContractBroken("\n".join([f"{len(broken)} of {len(CHECKS)} checks failed", *broken]))
    return tuple(CHECKS)


def fault(check: Callable[[Make], None], make: Make) -> str:
    """Return what a check finds wrong, or nothing."""
    try:
        check(make)
    except Exception as error:  # whatever a stranger's method raises is a finding
        return f"{type(error).__name__}: {error}"
    return ""


def maker(method: Callable[..., Learner], **options: Value) -> Make:
    """Return a function that makes learners; keywords of Setting and of the method may be given.

    So may the backbone, in place of a new one.
    """
    view = View(DATA.mean, DATA.std)
    own = {option.name for option in options_of("method", method)}
    fitting = {name: value for name, value in recipe("shapes").items() if name in own}

    def make(**given: Any) -> Learner:
        shared = {name: given.pop(name) for name in list(given) if name in vars(setting)}
        changed = Setting(**(vars(setting) | shared))
        backbone = given.pop("backbone", None) or small_backbone(changed.seed)
        return method(backbone, changed, **(fitting | options | given))

    setting = Setting(
        image_shape=DATA.image_shape,
        view=view,
        augment=Augment(view=view, padding=1, flip=False, rand_augment=False),
        memory_size=20,
        batch_size=8,
        lr=3e-3,
        samples=40,
    )
    return make
