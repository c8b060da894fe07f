"""Table of contents: every method, data set, stream, metric, probe and figure by name.

Objects are named by where they live and imported when asked for: `earl list` needs no torch.
Your own are added from outside with the same registries: `@METHODS.register("mine")`.
"""

from typing import TYPE_CHECKING

from earl.experiments.facts import DatasetFacts as DatasetFacts
from earl.experiments.facts import MethodFacts as MethodFacts
from earl.experiments.registry import Registry

if TYPE_CHECKING:  # types only: importing these would import torch
    from collections.abc import Callable

    from earl.data.dataset import Dataset
    from earl.data.source import Source
    from earl.data.streams import Schedule
    from earl.evaluation.history import Metric
    from earl.evaluation.loop import Probe
    from earl.learning.learner import Learner
    from earl.report.figures.canvas import Draw


# Okabe and Ito's colours, then Tol's, which colour-blind readers can tell apart. There are more
# methods than such colours: where many are drawn, marks and dashes tell them apart too.
METHODS: "Registry[Callable[..., Learner]]" = Registry("method")
METHODS.list(
    "earl",
    "earl.methods.earl:EARL",
    "fixed ETF, preparatory data, residual correction",
    MethodFacts("Seo 2024", False, "images, features", 1.03, "#D55E00"),
)
METHODS.list(
    "vanilla-etf",
    "earl.methods.earl:vanilla_etf",
    "EARL without either of its additions",
    MethodFacts("Seo 2024", False, "images", 1.03, "#009E73"),
)
METHODS.list(
    "earl-no-rc",
    "earl.methods.earl:earl_no_rc",
    "EARL without residual correction",
    MethodFacts("Seo 2024", False, "images", 1.03, "#E69F00"),
)
METHODS.list(
    "earl-no-pdt",
    "earl.methods.earl:earl_no_pdt",
    "EARL without preparatory data",
    MethodFacts("Seo 2024", False, "images, features", 1.03, "#CC79A7"),
)
METHODS.list(
    "earl-learnable",
    "earl.methods.earl:earl_learnable",
    "EARL with trained class vectors",
    MethodFacts("Seo 2024", False, "images, features", 1.03, "#005F73"),
)
METHODS.list(
    "er",
    "earl.methods.er:ER",
    "experience replay from a reservoir",
    MethodFacts("Rolnick 2019", False, "images", 1.0, "#0072B2"),
)
METHODS.list(
    "er-mir",
    "earl.methods.er_mir:ERMIR",
    "ER that replays what the new samples disturb",
    MethodFacts("Aljundi 2019", False, "images", 3.59, "#332288"),
)
METHODS.list(
    "ewc",
    "earl.methods.ewc:EWC",
    "ER with a Fisher penalty; uses task boundaries",
    MethodFacts("Kirkpatrick 2017", True, "images, weights", 1.0, "#AA4499"),
)
METHODS.list(
    "polrs",
    "earl.methods.polrs:PoLRS",
    "ER at three learning rates; the best goes on",
    MethodFacts("Cai 2021", False, "images, networks", 3.06, "#999933"),
)
METHODS.list(
    "der++",
    "earl.methods.derpp:DERpp",
    "replays labels, and the logits of their time",
    MethodFacts("Buzzega 2020", False, "images, logits", 1.0, "#000000"),
)
METHODS.list(
    "x-der",
    "earl.methods.xder:XDER",
    "DER++ that renews logits and prepares output rows",
    MethodFacts("Boschini 2022", True, "images, logits", 3.0, "#7F7F7F"),
)
METHODS.list(
    "scr",
    "earl.methods.scr:SCR",
    "contrastive replay; answers by nearest class mean",
    MethodFacts("Mai 2021", False, "images", 2.0, "#117733"),
)
METHODS.list(
    "memo",
    "earl.methods.memo:MEMO",
    "a copy of the last stage per task; uses boundaries",
    MethodFacts("Zhou 2023", True, "images, blocks", 1.16, "#882255"),
)
METHODS.list(
    "oddl",
    "earl.methods.oddl:ODDL",
    "experts with VAEs, a new one when the data change",
    MethodFacts("Ye 2022", False, "images, networks", 2.07, "#44AA99"),
)
METHODS.list(
    "remind",
    "earl.methods.frozen:REMIND",
    "freezes its first blocks, replays their codes",
    MethodFacts("Hayes 2020", False, "codes", 0.25, "#CC6677"),
)
METHODS.list(
    "nc-fscil",
    "earl.methods.frozen:NCFSCIL",
    "fixed ETF behind blocks that are frozen",
    MethodFacts("Yang 2023", False, "codes", 0.25, "#B8A13A"),
)
METHODS.list(
    "er-memory-only",
    "earl.methods.er_memory_only:MemoryOnlyER",
    "control: ER trained like EARL, from a balanced memory alone",
    MethodFacts("Rolnick 2019", False, "images", 1.0, "#56B4E9"),
)
# Statistics of fixed features: nothing is trained by gradient.
for _name, _kind, _about, _facts in (
    ("ncm", "NCM", "nearest class mean", ("Mensink 2013", "class means", "#88CCEE")),
    ("slda", "SLDA", "discriminant analysis", ("Hayes 2020", "means, covariance", "#661100")),
    ("ranpac", "RanPAC", "ridge regression", ("McDonnell 2023", "a Gram matrix", "#6699CC")),
    ("knn", "KNN", "nearest neighbours", ("Cover 1967", "features", "#DDCC77")),
):
    METHODS.list(
        _name,
        f"earl.methods.embeddings:{_kind}",
        f"{_about} on fixed features",
        MethodFacts(_facts[0], False, _facts[1], 0.02, _facts[2]),
    )

# A loader is handed a Source (earl/data/source.py): folders and options.
DATASETS: "Registry[Callable[[Source], Dataset]]" = Registry("data set", DatasetFacts())
DATASETS.list(
    "digits",
    "earl.data.sets.digits:load",
    "1 797 handwritten digits, 16 px; come with earl",
    DatasetFacts((1, 16, 16), 10, 1200, 597),
)
DATASETS.list(
    "shapes",
    "earl.data.sets.shapes:load",
    "synthetic patterns, 8 px; for tests",
    DatasetFacts((3, 8, 8), 4),
)
DATASETS.list(
    "cifar10",
    "earl.data.sets.cifar:cifar10",
    "50 000 images, 10 classes, 32 px",
    DatasetFacts((3, 32, 32), 10, 50_000, 10_000, find="earl.data.sets.cifar:find10"),
)
DATASETS.list(
    "cifar100",
    "earl.data.sets.cifar:cifar100",
    "50 000 images, 100 classes, 32 px",
    DatasetFacts((3, 32, 32), 100, 50_000, 10_000, find="earl.data.sets.cifar:find100"),
)
DATASETS.list(
    "tiny-imagenet",
    "earl.data.sets.tiny_imagenet:load",
    "100 000 images, 200 classes, 64 px",
    DatasetFacts((3, 64, 64), 200, 100_000, 10_000, find="earl.data.sets.tiny_imagenet:find"),
)
DATASETS.list(
    "imagenet-200",
    "earl.data.sets.imagenet:load200",
    "TinyImageNet's classes of ImageNet, 224 px",
    DatasetFacts((3, 224, 224), 200, 258_000, 10_000, find="earl.data.sets.imagenet:find200"),
)
DATASETS.list(
    "imagenet-1k",
    "earl.data.sets.imagenet:load1k",
    "1.28 million images, 1 000 classes, 224 px",
    DatasetFacts((3, 224, 224), 1000, 1_281_167, 50_000, find="earl.data.sets.imagenet:find1k"),
)
DATASETS.list(
    "clear-10",
    "earl.data.sets.clear:load10",
    "10 classes over ten years, 224 px",
    DatasetFacts((3, 224, 224), 10, 30_000, 5_000, find="earl.data.sets.clear:find10"),
)
DATASETS.list(
    "clear-100",
    "earl.data.sets.clear:load100",
    "100 classes over ten years, 224 px",
    DatasetFacts((3, 224, 224), 100, 99_000, 55_000, find="earl.data.sets.clear:find100"),
)
DATASETS.list(
    "folder",
    "earl.data.sets.folder:load",
    "your own: folder:PATH, a folder per class",
    DatasetFacts(find="earl.data.sets.folder:find"),
)
DATASETS.list(
    "csv",
    "earl.data.sets.csv_list:load",
    "your own: csv:FILE with path,label[,time][,split]",
    DatasetFacts(find="earl.data.sets.csv_list:find"),
)
DATASETS.list(
    "parquet",
    "earl.data.sets.parquet:load",
    "your own: parquet:PATH with an image and a label column",
    DatasetFacts(find="earl.data.sets.parquet:find"),
)
DATASETS.list(
    "embeddings",
    "earl.data.sets.embeddings:load",
    "features of images: embeddings:PATH, written by earl data embed",
)

STREAMS: "Registry[Callable[..., Schedule]]" = Registry("stream")
STREAMS.list(
    "disjoint", "earl.data.setups:disjoint", "tasks of different classes, one after the other"
)
STREAMS.list("gaussian", "earl.data.setups:gaussian", "classes come and go on a Gaussian schedule")
STREAMS.list(
    "periodic-gaussian", "earl.data.setups:periodic_gaussian", "classes come, go and come again"
)
STREAMS.list(
    "iblurry", "earl.data.setups:iblurry", "tasks whose classes partly leak into the others"
)
STREAMS.list("longtail", "earl.data.setups:longtail", "Gaussian, with few samples of most classes")
STREAMS.list(
    "clear", "earl.data.setups:clear", "time buckets in order, new classes in each of them"
)
STREAMS.list("iid", "earl.data.setups:iid", "all samples shuffled")

METRICS: "Registry[Metric]" = Registry("metric")
METRICS.list(
    "A_AUC", "earl.evaluation.metrics:a_auc", "mean accuracy over all evaluations of the stream"
)
METRICS.list("A_last", "earl.evaluation.metrics:a_last", "accuracy at the end of the stream")
METRICS.list(
    "A_AUC_all",
    "earl.evaluation.metrics:a_auc_all",
    "A_AUC over all time buckets, also those to come (CLEAR)",
)
METRICS.list(
    "A_last_all", "earl.evaluation.metrics:a_last_all", "A_last over all time buckets (CLEAR)"
)
METRICS.list(
    "AOA", "earl.evaluation.metrics:aoa", "online accuracy: predict each sample, then train on it"
)
METRICS.list("forgetting", "earl.evaluation.metrics:forgetting", "mean drop from a class's best")
METRICS.list("A_new", "earl.evaluation.metrics:a_new", "mean accuracy on classes that came last")

PROBES: "Registry[Probe]" = Registry("probe")
PROBES.list("collapse", "earl.evaluation.probes:collapse", "NC1, NC2 and NC3 of test features")
PROBES.list(
    "training-error",
    "earl.evaluation.probes:training_error",
    "share of wrong answers on training images",
)
PROBES.list(
    "bias", "earl.evaluation.probes:bias", "cosine of the newest class's features with old classes"
)
PROBES.list(
    "cosines", "earl.evaluation.probes:cosines", "of single samples with all class vectors; lists"
)
PROBES.list(
    "rotations", "earl.evaluation.probes:rotations", "accuracy on test images that are turned"
)
PROBES.list("corrections", "earl.evaluation.probes:corrections", "accuracy by way of correction")
PROBES.list(
    "features", "earl.evaluation.probes:features", "of the first four classes, reduced; lists"
)

FIGURES: "Registry[Draw]" = Registry("figure")
FIGURES.list("curves", "earl.report.figures.curves:curves", "accuracy over the stream")
FIGURES.list(
    "online-accuracy",
    "earl.report.figures.curves:online_accuracy",
    "accuracy on arriving samples, before they are learned",
)
FIGURES.list("tpt", "earl.report.figures.curves:tpt", "training error; --probe training-error")
FIGURES.list("bias", "earl.report.figures.curves:bias", "pull of new classes to old; --probe bias")
FIGURES.list("collapse", "earl.report.figures.collapse:collapse", "NC1 to NC3; --probe collapse")
FIGURES.list("tsne", "earl.report.figures.tsne:tsne", "features as points; --probe features")
FIGURES.list("cosine", "earl.report.figures.cosines:cosine", "a class beside all; --probe cosines")
FIGURES.list(
    "transforms",
    "earl.report.figures.cosines:transforms",
    "the same for negative transformations; --probe cosines",
)
FIGURES.list("k", "earl.report.figures.effect_of_k:effect_of_k", "A_AUC and A_last against k")
FIGURES.list("stream", "earl.report.figures.stream:stream", "which class arrives when")
