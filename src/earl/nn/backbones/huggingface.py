"""Vision models in the format of Hugging Face, through their library `transformers`.

A model is looked for in the user's cache first; only if it is not there the library may download
it. Weights are read from safetensors files, and no code that comes with a model is run.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from earl.errors import BackboneError
from earl.nn.backbones.views import ProcessedView

BLANK = 32  # pixels of a side of the image that a model is tried on


class Features(nn.Module):
    """A model of `transformers`, of whose output only the features are taken; -> (B, features)."""

    def __init__(self, model: nn.Module, pooled: bool) -> None:
        super().__init__()
        self.model = model
        self.pooled = pooled  # is the model's own summary of an image one that was trained?

    def forward(self, x: Tensor) -> Tensor:
        of_images = getattr(self.model, "get_image_features", None)  # models of images and texts
        out = (of_images or self.model)(pixel_values=x)
        return summary(out, self.pooled)


def summary(out: Any, pooled: bool) -> Tensor:
    """Return one vector an image: the pooled output, else the class token, else the mean."""
    if isinstance(out, Tensor):
        return out.flatten(1)
    pooler = getattr(out, "pooler_output", None)
    if pooled and isinstance(pooler, Tensor):
        return pooler.flatten(1)
    last = getattr(out, "last_hidden_state", None)
    if not isinstance(last, Tensor) or last.ndim not in (3, 4):
        raise BackboneError("it gives neither a pooled output nor hidden states")
    return last[:, 0] if last.ndim == 3 else last.mean(dim=(2, 3))  # tokens, or maps (B, C, h, w)


def open_model(name: str) -> tuple[nn.Module, ProcessedView, int]:
    """Return a model by the name of its repository or by a local folder, its view and its size."""
    try:
        import transformers
    except ImportError:
        raise BackboneError(
            f"backbone hf:{name} needs the package transformers; install it with: "
            'pip install "earl-learn[hf]"'
        ) from None
    path = Path(name).expanduser()
    local = name.startswith((".", "/", "~")) or path.is_dir()
    if local and not (path / "config.json").is_file():
        raise BackboneError(
            f"hf:{name}: there is no model in {path.absolute()}; expected there is "
            "a config.json beside model.safetensors and preprocessor_config.json"
        )
    where = str(path.absolute()) if local else name
    with quiet(transformers), torch.random.fork_rng(devices=[]):  # missing weights are drawn
        processor = first_local(transformers.AutoImageProcessor.from_pretrained, where, local)
        model, found = first_local(
            transformers.AutoModel.from_pretrained,
            where,
            local,
            output_loading_info=True,
            use_safetensors=True,
            dtype=torch.float32,
        )
    lacking = sorted(found["missing_keys"])
    if others := [key for key in lacking if "pooler" not in key]:
        raise BackboneError(
            f"hf:{name} lacks weights of the model, such as {others[0]}; nothing "
            "but the pooling layer may be missing"
        )
    network = Features(model, pooled=not lacking).eval()
    view = ProcessedView(processor=processor)
    return network, view, features_of(name, network, view)


def first_local(load: Callable[..., Any], where: str, local: bool, **options: Any) -> Any:
    """Return what is loaded without a connection; with one only if it is not there."""
    options |= {"trust_remote_code": False}
    try:
        return load(where, local_files_only=True, **options)
    except Exception as error:  # the library raises whatever its parts do
        if local:
            raise BackboneError(f"hf:{where} cannot be opened: {first_line(error)}") from None
    try:
        return load(where, **options)
    except Exception as error:
        raise BackboneError(
            f"hf:{where} is neither in the cache of Hugging Face nor can it be downloaded: "
            f"{first_line(error)}"
        ) from None


def features_of(name: str, network: nn.Module, view: ProcessedView) -> int:
    """Return the length of a model's features, found by showing it a blank image."""
    try:
        with torch.inference_mode():
            out = network(view(torch.zeros(2, 3, BLANK, BLANK, dtype=torch.uint8)))
    except Exception as error:  # a model of texts, of sounds, of anything
        raise BackboneError(
            f"hf:{name} gives no features of images: {first_line(error)}; choose a vision model"
        ) from None
    return int(out.shape[1])


def first_line(error: Exception) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text.rstrip(".")[:200]


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Within this context the library neither reports nor shows bars; afterwards as before."""
    logging = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
