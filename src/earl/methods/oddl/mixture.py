"""A growing mixture of components: classifiers, each with a VAE that knows its images."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.learning import Classes, Setting, Stateful, Work, adam, ask, descend, forward
from earl.methods.oddl.rmsprop import RMSprop
from earl.methods.oddl.vae import VAE
from earl.nn import Classifier, build, copy_frozen, feature_size
from earl.nn.optimizers import PlainRMSprop
from earl.randomness import Randomness


class Component:
    """A classifier, a VAE of the images it was trained on, and the classes that were among them.

    Row i of its head belongs to the i-th class it met. Frozen, it has no optimisers left.
    """

    def __init__(self, classifier: Classifier, vae: VAE, setting: Setting, vae_lr: float) -> None:
        self.setting = setting
        self.classifier = classifier.to(setting.device)
        self.vae = vae.to(setting.device)
        self.known = Classes()  # of class numbers, not of ids
        rmsprop = RMSprop if setting.device == "cpu" else PlainRMSprop
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            "classifier": adam(self.classifier.parameters(), setting.lr),
            "vae": rmsprop(self.vae.parameters(), lr=vae_lr),
        }

    @property
    def frozen(self) -> bool:
        return not self.optimizers

    def freeze(self) -> None:
        """Stop learning for ever: no gradients, no optimisers, batch norm as it is."""
        self.optimizers = {}
        for module in (self.classifier, self.vae):
            module.zero_grad()
            module.requires_grad_(False).eval()

    def meet(self, y: Tensor, generator: Generator) -> None:
        """Have a row for each of the class numbers y (B,)."""
        self.known.index(y)
        head = self.classifier.head
        head.grow(len(self.known), self.optimizers["classifier"], generator)

    def shares_classes(self, other: "Component") -> bool:
        mine, theirs = self.known.state_dict()["ids"], other.known.state_dict()["ids"]
        return bool(torch.isin(mine, theirs).any())

    def learn(
        self, x: Tensor, augmented: Tensor, y: Tensor, generator: Generator, work: Work
    ) -> None:
        """Take a step each on CE(h(augmented), y) and on -ELBO(x); x raw, y class numbers."""
        z = forward(self.classifier, self.setting, augmented)[:, : len(self.known)]
        loss = F.cross_entropy(z, self.known.numbers(y).to(z.device))
        descend(loss, self.optimizers["classifier"], work)
        noise = self.vae.noise(1, len(x), generator=generator)
        loss = -self.vae(unit(x, z.device), noise).mean()
        descend(loss, self.optimizers["vae"], work)

    def probabilities(self, x: Tensor, n: int) -> Tensor:
        """Return its softmax for raw images x, 0 for classes it does not know, (B, n)."""
        z = ask(self.classifier, self.setting, x)[:, : len(self.known)]
        with torch.inference_mode():
            p = z.new_zeros(len(x), n)
            rows = torch.arange(len(self.known))
            p[:, self.known.ids(rows).to(p.device)] = z.softmax(dim=1)
            return p

    def elbo(self, x: Tensor, noise: Tensor) -> Tensor:
        """Return how likely the raw images x are to its VAE, (B,), with noise (K, 1, latent)."""
        with torch.inference_mode():
            bound: Tensor = self.vae(unit(x, self.setting.device), noise)
            return bound

    def dream(self, n: int, generator: Generator) -> Tensor:
        """Return n images like those it was trained on, raw, (n, C, H, W)."""
        return (self.vae.generate(n, generator) * 255).round().to(torch.uint8)

    def parts(self) -> dict[str, Stateful]:
        optimizers = {f"{name}_optimizer": o for name, o in self.optimizers.items()}
        return {"classifier": self.classifier, "vae": self.vae, "known": self.known, **optimizers}


class Mixture:
    """Components, oldest first. The last one, the evaluator, always learns.

    The first has the backbone that was given; all others start with newly drawn parameters, but
    for those that were frozen in it.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        latent: int,
        hidden: int,
        vae_lr: float,
        draws: int,
    ) -> None:
        self.setting, self.latent, self.hidden, self.vae_lr = setting, latent, hidden, vae_lr
        self.randomness = Randomness(setting.seed)
        self.size = feature_size(backbone, setting.image_shape)
        self.plan = copy.deepcopy(backbone).to("meta")  # layers without values
        backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # as all others
        self.components = [self._component(0, backbone)]
        self.append()
        draw = self.randomness.at(0, "elbo")
        self.noise = self.evaluator.vae.noise(draws, 1, generator=draw)  # the same for ever

    @property
    def evaluator(self) -> Component:
        return self.components[-1]

    @property
    def frozen(self) -> list[Component]:
        return [component for component in self.components if component.frozen]

    @property
    def learning(self) -> list[Component]:
        return [component for component in self.components if not component.frozen]

    def __len__(self) -> int:
        return len(self.components)

    def choose(self, x: Tensor) -> Tensor:
        """Return which component finds each raw image most likely, (B,)."""
        return torch.stack([G.elbo(x, self.noise) for G in self.components]).argmax(dim=0)

    def append(self) -> None:
        """Add a component that knows nothing yet."""
        i = len(self.components)
        backbone = build(lambda: copy.deepcopy(self.plan), self.randomness.at(i, "component"))
        if self.components:  # else a state is loaded, which has all values
            copy_frozen(self.components[0].classifier.backbone, backbone)
        self.components.append(self._component(i, backbone))

    def _component(self, i: int, backbone: nn.Module) -> Component:
        classifier = Classifier(backbone, self.size, self.randomness.at(i, "head"))
        draw = self.randomness.at(i, "vae")
        vae = build(lambda: VAE(self.setting.image_shape, self.latent, self.hidden), draw)
        return Component(classifier, vae, self.setting, self.vae_lr)

    def parts(self) -> dict[str, Stateful]:
        """Return the parts of all components by name and number."""
        return {
            f"{name}_{i}": part
            for i, component in enumerate(self.components)
            for name, part in component.parts().items()
        }

    def take_shape_of(self, state: Mapping[str, Any]) -> None:
        """Have as many components as the learner whose state this is, and as many frozen ones."""
        self.components = []
        while f"vae_{len(self)}" in state:
            self.append()
            if f"vae_optimizer_{len(self) - 1}" not in state:
                self.evaluator.freeze()


def unit(x: Tensor, device: torch.device | str) -> Tensor:
    """Return raw images as floats in [0, 1]."""
    return x.to(device) / 255
