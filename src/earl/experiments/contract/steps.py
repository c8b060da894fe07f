"""What every method must keep if the loss or the gradients of a step are not finite.

As in `checks.py`, each function states one fact and raises `ContractBroken` otherwise.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn
from torch.optim import Optimizer

from earl.errors import ContractBroken, NoProgress
from earl.experiments.contract.checks import Make, expect, samples, teach
from earl.experiments.contract.guards import finite
from earl.learning.learner import Learner
from earl.learning.progress import PATIENCE
from earl.nn.modes import train_forward
from earl.nn.ranks import Alone
from earl.storage.state import digest

SPOILT = (9, 10, 11, 25, 26, 27)  # samples whose updates are spoilt
MANY = 60  # samples within which learning must have stopped


class Spoiler(Alone):
    """Stands where processes that train together would, and spoils updates while it is told to.

    Either what a network makes of a batch is infinite, or the gradients of all weights are.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.learner: Learner | None = None  # whose updates are spoilt at present
        self.trained: list[nn.Module] = []
        self.before: dict[str, str] = {}  # digests before the first pass that was spoilt

    def forward(self, network: nn.Module, x: Tensor) -> Tensor:
        if self.learner is None:
            return train_forward(network, x)
        self.before = self.before or digests(self.learner)
        self.trained.append(network)
        out = train_forward(network, x)
        return out * float("inf") if self.kind == "loss" else out

    @contextmanager
    def spoiling(self, learner: Learner) -> Iterator[None]:
        """Spoil the updates of a learner."""
        self.learner, self.trained, self.before = learner, [], {}
        weights = [p for part in modules_of(learner).values() for p in part.parameters()]
        hooks = [
            p.register_hook(lambda gradient: gradient * float("inf"))
            for p in weights
            if p.requires_grad and self.kind == "gradient"
        ]
        try:
            yield
        finally:
            self.learner = None
            for hook in hooks:
                hook.remove()

    def compare(self, learner: Learner) -> None:
        """Expect that nothing has changed which steps of the spoilt passes would change."""
        after = digests(learner)
        touched = {id(p) for network in self.trained for p in network.parameters()}
        for name in self.before:
            everything = self.kind == "gradient" or touched & weights_of(learner.parts()[name])
            same = self.before[name] == after[name]
            expect(not everything or same, f"{self.kind} = inf has changed its {name}")


def modules_of(learner: Learner) -> Mapping[str, nn.Module]:
    return {name: part for name, part in learner.parts().items() if isinstance(part, nn.Module)}


def digests(learner: Learner) -> dict[str, str]:
    """Return the digests of all networks and optimisers of a learner."""
    parts = learner.parts().items()
    kinds = (nn.Module, Optimizer)
    return {name: digest(part.state_dict()) for name, part in parts if isinstance(part, kinds)}


def weights_of(part: object) -> set[int]:
    """Return which weights a network has, or an optimiser moves."""
    if isinstance(part, nn.Module):
        return {id(p) for p in part.parameters()}
    assert isinstance(part, Optimizer)
    return {id(p) for group in part.param_groups for p in group["params"]}


def a_step_that_is_not_finite_is_undone(make: Make) -> None:
    """Weights, moments and statistics are as before, bit for bit; it counts, and learning goes on.

    Where nothing is trained by gradient there are no steps.
    """
    x, y = samples(30)
    for kind in ("loss", "gradient"):
        spoiler = Spoiler(kind)
        learner, updates = make(ranks=spoiler), 0
        if not learner.by_gradient:
            return
        for i, (x_i, y_i) in enumerate(zip(x.split(1), y.split(1), strict=True)):
            if i not in SPOILT:
                learner.observe(x_i, y_i)
                continue
            updates -= learner.work.updates
            with spoiler.spoiling(learner):
                learner.observe(x_i, y_i)
            spoiler.compare(learner)
            updates += learner.work.updates
        learner.finish()
        expect(learner.work.updates == len(y), "an update that was undone is not counted as one")
        skipped = learner.costs()["skipped_steps"]
        expect(skipped >= updates > 0, f"{skipped:.0f} skipped steps in {updates} such updates")
        sound = finite(learner) and bool(learner.scores(x).isfinite().all())
        expect(sound, f"{kind} = inf has left numbers that are not finite")


def learning_ends_where_no_step_is_taken(make: Make) -> None:
    """After some updates in a row the next sample is refused; answers, and what is saved, go on."""
    x, y = samples(12 + MANY)
    spoiler = Spoiler("gradient")
    learner, fresh = make(ranks=spoiler), make()
    if not learner.by_gradient:
        return
    teach(learner, x[:12], y[:12])
    updates, i = learner.work.updates, 12
    with spoiler.spoiling(learner):
        while i < len(y):
            state = digest(learner.state_dict())
            try:
                learner.observe(x[i : i + 1], y[i : i + 1])
            except NoProgress:
                break
            i += 1
        else:
            raise ContractBroken(f"{MANY} samples have been learned with gradients of inf")
    expect(learner.work.updates - updates >= PATIENCE, "it has stopped too soon")
    expect(digest(learner.state_dict()) == state, "a sample that was refused changed the state")
    learner.predict(x)
    fresh.load_state_dict(learner.state_dict())
    teach(fresh, x[i : i + 4], y[i : i + 4])
    expect(fresh.work.progress.skipped_steps >= PATIENCE, "what was skipped is not in its state")
