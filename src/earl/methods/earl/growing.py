"""More classes than vectors: the frame of EARL doubles, and all that depends on it follows."""

from typing import TYPE_CHECKING

from torch import Tensor

from earl.methods.earl.along import AlongVectors
from earl.nn import Frame, Projection
from earl.nn.build import TRAINED
from earl.nn.room import require_room

if TYPE_CHECKING:
    from earl.methods.earl.earl import EARL


def require_room_for(learner: "EARL", y: Tensor) -> None:
    """Raise TooLarge if the classes of y need a frame that this machine has no memory for."""
    n, now = len(learner.classes) + len(learner.classes.new(y)), learner.frame.etf
    if n > now.K:
        d = now.for_classes(n).d
        held = learner.residuals.nbytes() + learner.frame.nbytes()
        if isinstance(learner.p, Projection):
            held += TRAINED * learner.p.nbytes_of_outputs()
        require_room(held * d // now.d, f"{n} classes need features of d = {d} numbers, which")


def make_room(learner: "EARL") -> None:
    """Give every seen class its vector, and what has a row for each class such a row."""
    n = len(learner.classes)
    if n > learner.frame.etf.K:
        grow(learner)
    if learner.learned is not None:
        draw = learner.randomness.at(n, "classifier")
        learner.learned.grow(n, learner.optimizer, draw)
    if isinstance(learner.p, AlongVectors):
        learner.p.follow(learner.frame.class_vectors(n), learner.optimizer)


def cost_of_pass(learner: "EARL") -> tuple[int, int]:
    """Return what the cost of a pass hangs on: d, and along how many vectors features move."""
    p, d = learner.p, learner.frame.etf.d
    return d, len(p.means.there()) if isinstance(p, AlongVectors) else 0


def grow(learner: "EARL") -> None:
    """Have twice as many vectors: old ones keep all that they have, and turn a little."""
    n = len(learner.classes)
    learner.frame = Frame(learner.frame.etf.for_classes(n), learner.setting.device)
    d, K = learner.frame.etf.d, learner.frame.etf.K
    if isinstance(learner.p, Projection):
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
    if isinstance(learner.p, Projection):
        learner.p.resize(d)
    if learner.learned is not None:
        learner.learned.resize(d)
    if learner.prepare is not None:
        learner.prepare.K = etf.K
