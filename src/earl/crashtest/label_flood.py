"""B10: one token posts new labels without end; honest classes keep their memory and answers."""

from collections import Counter
from typing import Any

from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import Server, parameters
from earl.crashtest.small import Samples, ready, stream
from earl.estimator import EARLClassifier
from earl.service.limits import Limits, Quota
from earl.service.tokens import Tokens

SCOPES = ("predict", "learn", "learn:new-class")
MEMORY = EARLClassifier().memory_size  # what a service has unless it is told otherwise
# A service by default has room for thousands of classes; so must this one, for those of a flood.
GIVEN: dict[str, Any] = {"memory_size": MEMORY, "settings": {"d": 63, "hidden": 64}}
HONEST = MEMORY + 100  # samples, so that the memory is full
PROBES = 400  # images to ask about
KEPT, DROPPED = 0.9, 0.02  # of the memory, at least; of the answers, at most
REFUSALS = ("too_many_new_classes", "too_many_requests")


def label_flood(trial: Trial) -> Found:
    """Teach a service, then flood it with labels; the sabotage does not count new classes."""
    ready()
    model = parameters(**GIVEN)
    server = Server(trial.place / "state", Limits(), model=model, asks=True)
    server.sabotage = uncounted if trial.sabotage else None
    server.start()
    tokens = Tokens(server.folder)
    honest, attacker = (
        {"Authorization": f"Bearer {tokens.add(name, SCOPES, requests)}"}
        for name, requests in (("honest", 10**6), ("attacker", None))
    )
    server.headers = honest
    samples, flood = stream(HONEST + PROBES, trial.seed), stream(trial.count, trial.seed + 1)
    found = trial.found(samples=HONEST, posted=0, accepted=0, refused=0)
    for number in range(HONEST):
        image, label = samples.images[number], samples.labels[number]
        status, answer = server.learn(image, label, f"honest-{number}")
        found.expect(status == 202, f"an honest sample: {status} {answer}")
    server.settle()
    before = remembered(server, samples), right(server, samples)
    attack(server, flood, attacker, found)
    server.settle()
    compare(before, (remembered(server, samples), right(server, samples)), found)
    found.expect(server.stop() == 0, "it did not end in peace")
    return found


def attack(server: Server, flood: Samples, attacker: dict[str, str], found: Found) -> None:
    """Post images of honest classes, each under a label of its own."""
    codes: Counter[str] = Counter()
    for number, image in enumerate(flood.images):
        status, answer = server.learn(image, f"flood {number}", f"flood-{number}", **attacker)
        found.figures["posted"] += 1
        codes["accepted" if status == 202 else str(answer["error"])] += 1
        known = status == 202 or (status == 429 and answer["error"] in REFUSALS)
        found.expect(known, f"label {number}: {status} {answer}")
    accepted, most = codes["accepted"], Limits().new_classes
    found.figures |= {"accepted": accepted, "refused": sum(codes.values()) - accepted}
    found.expect(accepted == min(most, len(flood)), f"{accepted} new labels of {most} were taken")


def remembered(server: Server, samples: Samples) -> int:
    """Return how many samples of honest classes are in memory."""
    classes: list[dict[str, Any]] = server.ask("GET", "/classes")[1]["classes"]
    honest = set(samples.labels)
    return sum(one["remembered"] for one in classes if one["label"] in honest)


def right(server: Server, samples: Samples) -> float:
    """Return the share of right answers about images that were never taught."""
    hits = 0
    for image, label in zip(samples.images[HONEST:], samples.labels[HONEST:], strict=True):
        found = server.predict(image)[1]
        hits += found["answers"][0]["label"] == label
    return hits / PROBES


def compare(before: tuple[int, float], after: tuple[int, float], found: Found) -> None:
    """Compare what honest classes have in memory, and how they are answered."""
    kept, dropped = after[0] / before[0], before[1] - after[1]
    found.figures |= {"memory": MEMORY, "kept": round(kept, 3)}
    found.figures |= {"right_before": round(before[1], 3), "right_after": round(after[1], 3)}
    found.expect(kept >= KEPT, f"honest classes keep {after[0]} of {before[0]} samples")
    found.expect(dropped <= DROPPED, f"right answers: {before[1]:.3f} and then {after[1]:.3f}")


def uncounted() -> None:
    """The sabotage: a token may always bring one more."""
    put(Quota, "left", lambda quota, name: 10**9)
