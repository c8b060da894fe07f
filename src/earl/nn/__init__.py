"""Networks and what they calculate with: all that a method's author needs of them.

Everything else in this folder is reached by its module.
"""

from earl.nn.augment import Augment, View, augment_together
from earl.nn.build import build, feature_size, resnet_for
from earl.nn.contrastive_augment import contrast_augment
from earl.nn.etf import Frame, SimplexETF, dot_regression
from earl.nn.freezing import begin_training, copy_frozen, learning, let_learn
from earl.nn.heads import Classifier, GrowingLinear, Projection
from earl.nn.losses import finite_or_nan, known_mse, supervised_contrastive
from earl.nn.modes import eval_mode, frozen_norm_stats, train_forward
from earl.nn.resnet import ResNet
from earl.nn.steps import Taken, chosen, differentiate

__all__ = [
    "Augment",
    "Classifier",
    "Frame",
    "GrowingLinear",
    "Projection",
    "ResNet",
    "SimplexETF",
    "Taken",
    "View",
    "augment_together",
    "begin_training",
    "build",
    "chosen",
    "contrast_augment",
    "copy_frozen",
    "differentiate",
    "dot_regression",
    "eval_mode",
    "feature_size",
    "finite_or_nan",
    "frozen_norm_stats",
    "known_mse",
    "learning",
    "let_learn",
    "resnet_for",
    "supervised_contrastive",
    "train_forward",
]
