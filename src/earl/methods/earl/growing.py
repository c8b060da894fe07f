"""More classes than vectors: the frame of EARL doubles, and all that depends on it follows."""

from typing import TYPE_CHECKING

from torch import Tensor

from earl.nn import Frame
from earl.nn.build import TRAINED
from earl.nn.room import require_room

if TYPE_CHECKING:
    from earl.methods.earl.earl import EARL


def require_room_for(learner: "EARL", y: Tensor) -> None:
    """Raise TooLarge if the classes of y need a frame that this machine has no memory for."""
    n, now = len(learner.classes) + len(learner.classes.new(y)), learner.frame.etf
    if n > now.K:
        d = now.for_classes(n).d
        held = TRAINED * learner.p.nbytes_of_outputs() + learner.residuals.nbytes()
        require_room(held * d // now.d, f"{n} classes need features of d = {d} numbers, which")


def grow(learner: "EARL") -> None:
    """Have twice as many vectors: old ones keep all that they have, and turn a little."""
    n = len(learner.classes)
    learner.frame = Frame(learner.frame.etf.for_classes(n), learner.setting.device)
    d, K = learner.frame.etf.d, learner.frame.etf.K
    learner.p.grow(d, learner.optimizer)
    learner.residuals.widen(d)
    if learner.learned is not None:
        wider = learner.randomness.at(d, "wider classifier")
        learner.learned.widen(d, n - 1, learner.optimizer, wider)
    if learner.prepare is not None:
        learner.prepare.regrow(K)


def resize(learner: "EARL", d: int) -> None:
    """Take the shapes of a learner whose frame has grown to d dimensions, or not yet."""
    etf = learner.frame.etf.of_dimensions(d)
    learner.frame = Frame(etf, learner.setting.device)
    learner.p.resize(d)
    if learner.learned is not None:
        learner.learned.resize(d)
    if learner.prepare is not None:
        learner.prepare.K = etf.K
