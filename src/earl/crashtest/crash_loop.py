"""A9: lives that end soon after they began still come to the end of a stream."""

from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from earl.cli.learn import opened
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import LEARNED, Life, Tell, ask_child, in_child, pause
from earl.crashtest.sabotage import put
from earl.crashtest.small import of_images, ready, stream
from earl.crashtest.subjects import ModelSubject, RunSubject, Subject, silent
from earl.estimator.samples import Sample, teach
from earl.experiments.runs.clock import Clock
from earl.experiments.runs.directory import RunDirectory

INTERVAL = 0.4  # seconds between two snapshots
HOPELESS = 4  # lives in a row without progress


@dataclass
class ClockedRun(RunSubject):
    """A run that saves by its own clock."""

    def live(self, tell: Tell) -> None:
        run = RunDirectory(self.path, self.experiment)
        for moment in run.run(
            device="cpu", threads=1, snapshot_seconds=INTERVAL, dataset=self.dataset
        ):
            tell(LEARNED, moment.step)


@dataclass
class TaughtModel(ModelSubject):
    """An estimator that `earl learn` teaches with image files, and saves by the clock."""

    files: list[Sample] = field(default_factory=list)
    seconds: float = INTERVAL

    def live(self, tell: Tell) -> None:
        clf = opened(self.path, of_images().get_params())
        left = self.files[clf.history.samples :]
        for lesson in teach(clf, left, self.path, seconds=self.seconds):
            tell(LEARNED, lesson.step)


def crash_loop_run(trial: Trial) -> Found:
    """A run; the sabotage saves nothing before the end."""
    if trial.sabotage:
        put(Clock, "due", lambda clock, writing: False)
    whole, other = (ClockedRun(trial.place / n, trial.count) for n in ("whole", "killed"))
    return looped(trial, whole, other)


def crash_loop_model(trial: Trial) -> Found:
    """An estimator that is taught; the sabotage saves nothing before the end."""
    seconds, files = 1e9 if trial.sabotage else INTERVAL, image_files(trial)
    whole, other = (
        TaughtModel(trial.place / name, trial.count, files=files, seconds=seconds)
        for name in ("whole", "killed")
    )
    return looped(trial, whole, other)


def looped(trial: Trial, whole: Subject, other: Subject) -> Found:
    """Kill every life of `other` after its first sample and 1.5 intervals, until it has ended."""
    ready()
    lives, idle, reached, code = 0, 0, 0, -9
    while code < 0 and idle < HOPELESS:
        life = Life.begin(other.live)
        life.hear(1)
        pause(1.5 * INTERVAL)
        code, lives = life.kill(), lives + 1
        idle = idle + 1 if other.reached() <= reached else 0
        reached = other.reached()
    found = trial.found(samples=whole.total, lives=lives, finished=int(code == 0))
    found.expect(code == 0, f"after {lives} lives {reached} of {whole.total} samples are learned")
    in_child(lambda: whole.live(silent))
    same = ask_child(other.result) == ask_child(whole.result)
    found.figures["identical"] = int(same)
    found.expect(same, "another result than without kills")
    found.expect(lives > 1, "there was only one life: take more samples")
    return found


def image_files(trial: Trial) -> list[Sample]:
    """Return the samples of a stream as files with labels."""
    folder, samples = trial.folder("images"), stream(trial.count)
    files: list[Sample] = []
    for number, (image, label) in enumerate(zip(samples.images, samples.labels, strict=True)):
        path = Path(folder, f"{number}.png")
        Image.fromarray(image).save(path)
        files.append((path, label))
    return files
