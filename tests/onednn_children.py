"""Programs that die, or not, when bfloat16 is tried."""

from earl.experiments.experiment import Experiment

LIMITED = "AVX512_CORE_BF16"


DIE = "import os, resource, signal\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"


NAME = "print('onednn_verbose,v1,info,cpu,isa:Made-up instructions', flush=True)\n"


ALWAYS = f"{DIE}{NAME}os.kill(os.getpid(), signal.SIGILL)"


UNLESS = (
    f"{DIE}{NAME}if os.environ['ONEDNN_MAX_CPU_ISA'] != '{LIMITED}':\n"
    "    os.kill(os.getpid(), signal.SIGILL)"
)


NEVER = NAME


def half_run(method: str = "er", **given: str) -> Experiment:
    settings = {"precision": "bfloat16", "per_class": 2, "every": 4}
    return Experiment(
        method=method, dataset="shapes", stream="gaussian", settings=settings, **given
    )
