"""What REMIND and NC-FSCIL have in common: they learn in two phases, before and after a freeze."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from earl.learning import Learner, Memory, Pace, Waiting
from earl.methods.frozen.front import Encoder, SplitResNet
from earl.randomness import Randomness


class TwoPhases(Learner):
    """Learns images at first; later the front is frozen, and only what it makes of them is kept."""

    frozen_in_state: ClassVar[str]  # where the state of the network says whether it is frozen
    augment_stream: bool
    base: int  # samples of the first phase
    split: SplitResNet
    encoder: Encoder
    waiting: Waiting
    pace: Pace
    memory: Any  # a Memory, or what adds and draws as one
    randomness: Randomness

    @abstractmethod
    def _enter(self, frozen: bool) -> None:
        """Begin a phase: with an empty memory and an optimiser for what learns in it."""

    @abstractmethod
    def _update(self, X: Tensor, Y: Tensor) -> None:
        """Train once on new images, or on what is kept of them, and on some from the memory."""

    def _wait(self, x: Tensor, y: Tensor) -> None:
        """Let one sample with its class number wait for others; the last of the base switches."""
        last = self.pace.samples + len(self.waiting) + 1 == self.base
        self.waiting.append(x, y)
        if last:
            self.waiting.flush()
            self._switch()

    def _learn_block(self, X: Tensor, Y: Tensor) -> None:
        if not self.split.frozen:
            for _ in self.pace.owed(len(Y)):
                self._update(X, Y)
            self._keep(X, Y)
            return
        block = self.encoder.block(X, augmented=self.augment_stream)
        for _ in self.pace.owed(len(Y)):
            self._update(block.look(self.randomness.at(self.work.updates, "augment")), Y)
        self._keep(block.kept(self.randomness.at(self.memory.seen, "augment codes")), Y)

    def _keep(self, X: Tensor, Y: Tensor) -> None:
        purpose = "insert codes" if self.split.frozen else "insert"
        self.memory.add(self.randomness.at(self.memory.seen, purpose), x=X, y=Y)

    def _switch(self) -> None:
        """Freeze the front, and keep what it makes of the stored images in their place."""
        images = self.memory
        assert isinstance(images, Memory)
        self._enter(frozen=True)
        if self.split.quantizer is not None:
            self.encoder.fit_quantizer(images, self.randomness.at(0, "codebooks"))
        for X, Y in self.encoder.encode_stored(images):
            self._keep(X, Y)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if set(state) == set(self.parts()):
            self.check_state(state)
            self._enter(frozen=bool(state["network"][self.frozen_in_state]))
        super().load_state_dict(state)

    def shape_kept(self, state: Mapping[str, Any]) -> tuple[int, ...]:
        frozen = state["network"].get(self.frozen_in_state, False)
        return self.split.shape_kept if frozen else super().shape_kept(state)
