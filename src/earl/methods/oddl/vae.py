"""A variational autoencoder (Kingma and Welling, ICLR 2014): how likely an image is, and new ones.

Images are floats in [0, 1] here, not normalised ones: the decoder's pixels are probabilities.
"""

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting


class VAE(nn.Module):
    """Encoder and decoder with two hidden layers each; an image (C, H, W) is `latent` numbers.

    z ~ q(z|x) = N(μ(x), σ²(x)), prior N(0, I), and independent Bernoulli pixels given z.
    """

    def __init__(self, shape: tuple[int, int, int], latent: int, hidden: int) -> None:
        super().__init__()
        if latent < 1 or hidden < 1:
            raise InvalidSetting(
                f"a VAE of latent = {latent} and hidden = {hidden} units needs 1 or more of each"
            )
        self.latent = latent
        pixels = math.prod(shape)
        self.encoder = nn.Sequential(
            nn.Flatten(), *hidden_layers(pixels, hidden), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(
            *hidden_layers(latent, hidden), nn.Linear(hidden, pixels), nn.Unflatten(1, shape)
        )

    def forward(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the ELBO of each image (B, C, H, W): mean log p(x|z) - KL(q(z|x) | N(0, I)); (B,).

        The mean is over K draws z = μ + σ ε with noise ε (K, B, latent), or (K, 1, latent): the
        same for all images. Without noise z = μ, which a decoder hardly ever meets in training
        while q is near the prior: do not judge images by that.
        """
        mean, log_var = self.encode(x)
        epsilon = mean.new_zeros(1, 1, self.latent) if noise is None else noise
        fits = [log_likelihood(x, self.decoder(reparameterise(mean, log_var, e))) for e in epsilon]
        return torch.stack(fits).mean(dim=0) - kl_from_prior(mean, log_var)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the logarithm of the variance of q(z|x), each (B, latent)."""
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        return mean, log_var

    def noise(self, *shape: int, generator: Generator) -> Tensor:
        """Return draws from N(0, I), (*shape, latent)."""
        at = next(self.parameters()).device
        return torch.randn(*shape, self.latent, generator=generator).to(at, non_blocking=True)

    def generate(self, n: int, generator: Generator) -> Tensor:
        """Return the mean images of n draws z ~ N(0, I), (n, C, H, W) in [0, 1]."""
        with torch.inference_mode():
            images: Tensor = torch.sigmoid(self.decoder(self.noise(n, generator=generator)))
            return images


def hidden_layers(size: int, hidden: int) -> list[nn.Module]:
    return [nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]


def reparameterise(mean: Tensor, log_var: Tensor, epsilon: Tensor) -> Tensor:
    """Return z = μ + σ ε with ε ~ N(0, I), through which gradients reach μ and σ; (B, latent)."""
    return mean + (log_var / 2).exp() * epsilon


def log_likelihood(x: Tensor, logits: Tensor) -> Tensor:
    """Return Σ x log p + (1 - x) log(1 - p) over the pixels of each image, p from logits; (B,)."""
    return -F.binary_cross_entropy_with_logits(logits, x, reduction="none").flatten(1).sum(dim=1)


def kl_from_prior(mean: Tensor, log_var: Tensor) -> Tensor:
    """Return KL(N(μ, σ²) | N(0, I)) = ½ Σ (μ² + σ² - log σ² - 1) of each row, (B,)."""
    return (mean.square() + log_var.exp() - log_var - 1).sum(dim=1) / 2
