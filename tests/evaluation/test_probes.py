"""Probes: what they say is what one finds by hand, and they leave the learner as it was."""

import json
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from earl.data.setups import disjoint
from earl.data.streams import Schedule, Stream
from earl.errors import EarlError
from earl.evaluation.history import Evaluation
from earl.evaluation.loop import Exam, ProbeInput, examine, learn_online
from earl.evaluation.probes import LONGEST, embedding_of
from earl.experiments.catalogue import PROBES
from earl.nn import eval_mode
from earl.report.export.tables import Scalars
from earl.storage.state import digest
from kin import every_method

NEED_FEATURES = ("collapse", "bias", "cosines", "features", "corrections")
CORRECTED = ("earl", "vanilla-etf", "earl-no-rc", "earl-no-pdt", "earl-learnable")


def learn(learner, dataset, steps=60):
    """Return the given after so many samples of a stream with two classes per task."""
    stream = Stream(dataset.train, disjoint(dataset.train, seed=1, tasks=2))
    for _, (x, y) in zip(range(steps), stream, strict=False):
        learner.observe(x, y)
    return input_of(learner, dataset, stream.schedule, steps)


@pytest.fixture(scope="module")
def taught(make, dataset):
    """What a probe is given after 100 samples, for each method; do not change it."""
    known = {}

    def taught_once(method):
        if method not in known:
            known[method] = learn(make(method, iterations=0.5), dataset, steps=100)
        return known[method]

    return taught_once


def input_of(learner, dataset, schedule, steps):
    seen, coming = schedule.order[:steps], schedule.order[steps:]
    asked = Exam(dataset.test).questions(dataset.train.labels[seen])
    return ProbeInput(learner, steps, dataset.test, asked, dataset.train, seen, coming)


def features(learner, x):
    """Return the features by hand, of a learner that has them or of a plain classifier's."""
    if hasattr(learner, "features"):
        return learner.features(x)
    with torch.no_grad(), eval_mode(learner.network):
        return learner.network.backbone(learner.setting.view(x))


def vectors(learner):
    if hasattr(learner, "vectors"):
        return learner.vectors()
    return learner.network.head.weight.detach()[: len(learner.classes)]


def images_of(dataset, learner, number, most):
    """Return the first test images of the class that came `number`-th."""
    c = int(learner.classes.ids(torch.tensor([number])))
    return dataset.test.images[(dataset.test.labels == c).nonzero().flatten()[:most]]


def arrival(given, number):
    """Return at which step the `number`-th class came, counted from 1."""
    ids = given.train.labels[given.seen].tolist()
    return ids.index(list(dict.fromkeys(ids))[number]) + 1


@pytest.mark.parametrize("method", every_method())
def test_probes_change_nothing_and_need_no_luck(make, dataset, method):
    learner = make(method, iterations=0.25)
    given = learn(learner, dataset, steps=45)
    before, random = digest(learner.state_dict()), torch.get_rng_state()
    for entry in PROBES:
        probe = PROBES[entry.name]
        needs = entry.name in NEED_FEATURES and embedding_of(learner) is None
        if needs or (entry.name == "corrections" and method not in CORRECTED):
            with pytest.raises(EarlError, match=f"--probe {entry.name}"):
                probe(given)
            continue
        read = probe(given)
        assert read and probe(given) == read
        assert json.loads(json.dumps(read, allow_nan=False)) == read
    assert digest(learner.state_dict()) == before
    assert torch.equal(torch.get_rng_state(), random)


def test_the_training_error_is_that_of_the_first_200_images_of_each_class_to_arrive(make, dataset):
    learner = make("vanilla-etf", iterations=0.5)
    few, many = dataset.train.labels.unique()[:2].tolist()
    of = {c: (dataset.train.labels == c).nonzero().flatten() for c in (few, many)}
    order = torch.cat([of[many].repeat(6)[:230], of[few][:3]])  # repeats stand in for a large class
    for i in order[:40].tolist() + order[-3:].tolist():
        learner.observe(dataset.train.images[[i]], dataset.train.labels[[i]])
    given = input_of(learner, dataset, Schedule(order), len(order))
    kept = order[:200].tolist() + order[-3:].tolist()
    wrong = sum(
        int(learner.predict(dataset.train.images[[i]])) != int(dataset.train.labels[i])
        for i in kept
    )
    assert PROBES["training-error"](given)["training_error"] == pytest.approx(wrong / 203, rel=1e-4)


def accuracy(learner, split, asked):
    return float((learner.predict(split.images[asked]) == split.labels[asked]).double().mean())


@pytest.mark.parametrize("preparatory", [True, False])
def test_corrections_are_the_accuracies_of_learners_that_answer_so(make, dataset, preparatory):
    def taught_by(**settings):
        learner = make("earl", preparatory=preparatory, iterations=0.5, **settings)
        given = learn(learner, dataset, steps=100)
        coming = torch.cat([given.coming.repeat(10), given.seen])  # more than are looked at
        return learner, replace(given, coming=coming)

    ways = {
        "stored": taught_by(),
        "uncorrected": taught_by(correction=False),
        "refreshed": taught_by(residual_source="refresh"),
    }
    expected = {}
    for way, (learner, given) in ways.items():
        expected[f"accuracy_{way}"] = accuracy(learner, given.test, given.asked)
        expected[f"online_{way}"] = accuracy(learner, given.train, given.coming[:200])
    assert len(set(expected.values())) > 2
    for way, (_, given) in ways.items():
        read = PROBES["corrections"](given)
        known = {n: v for n, v in expected.items() if way == "stored" or "stored" not in n}
        assert read == pytest.approx(known, rel=1e-4)


def test_samples_that_come_next_are_asked_as_they_come_new_classes_are_wrong(make, dataset):
    given = learn(make("earl", iterations=0.5), dataset, steps=10)
    known = given.train.labels[given.seen].unique()
    foreign = given.coming[~torch.isin(given.train.labels[given.coming], known)]
    assert len(foreign)
    assert PROBES["corrections"](replace(given, coming=foreign))["online_stored"] == 0
    at_the_end = PROBES["corrections"](replace(given, coming=foreign[:0]))
    assert at_the_end and not any(name.startswith("online") for name in at_the_end)


@pytest.mark.parametrize("method", ["vanilla-etf", "earl", "er", "scr"])
def test_bias_is_the_mean_of_the_largest_cosine_with_an_old_class(taught, dataset, method):
    given = taught(method)
    learner = given.learner
    newest, total = len(learner.classes) - 1, 0.0
    images = images_of(dataset, learner, newest, 100)
    assert newest == 3
    W = vectors(learner)
    for x in images:
        h = features(learner, x[None])[0]
        total += max(float(F.cosine_similarity(h, w, dim=0)) for w in W[:newest])
    assert PROBES["bias"](given)["bias"] == pytest.approx(total / len(images), abs=1e-4)


def test_one_class_has_no_bias_no_geometry_and_no_neighbours(make, dataset):
    given = learn(make("earl"), dataset, steps=1)
    assert PROBES["bias"](given) == PROBES["features"](given) == PROBES["collapse"](given) == {}
    assert PROBES["cosines"](given)["cosine_classes"] == [0]


@pytest.mark.parametrize("method", ["earl", "earl-no-pdt", "vanilla-etf", "er"])
def test_cosines_are_those_of_the_first_and_the_newest_class(taught, dataset, method):
    given = taught(method)
    learner = given.learner
    read = PROBES["cosines"](given)
    assert read["cosine_classes"] == [0, 3]
    assert read["cosine_ages"] == [100 - arrival(given, c) for c in (0, 3)]
    for c, kept in zip((0, 3), read["cosines"], strict=True):
        x = images_of(dataset, learner, c, 50)
        h = features(learner, x)
        if method in ("earl", "earl-no-pdt"):
            h = learner.corrected(h)
            assert (h.norm(dim=1) - 1).abs().max() > 0.01  # a score is no cosine of it
        expected = F.cosine_similarity(h[:, None], vectors(learner), dim=2)
        torch.testing.assert_close(torch.tensor(kept), expected, atol=1e-4, rtol=1e-4)


def test_features_keep_their_distances(taught, dataset):
    """With at most 31 samples, 30 principal components are all there are."""
    given = taught("er")
    learner = given.learner
    few = torch.cat([given.asked[dataset.test.labels[given.asked] == c][:7] for c in range(4)])
    read = PROBES["features"](replace(given, asked=few))
    numbers = learner.classes.numbers(dataset.test.labels[few])
    order = numbers.argsort(stable=True)
    assert read["feature_classes"] == numbers[order].tolist()
    assert read["feature_age"] == 100 - arrival(given, 3)
    h, kept = features(learner, dataset.test.images[few[order]]), torch.tensor(read["features"])
    assert kept.shape[1] <= 30
    torch.testing.assert_close(torch.cdist(kept, kept), torch.cdist(h, h), atol=1e-2, rtol=1e-2)


def test_lists_end_10_000_samples_after_the_class(taught, dataset):
    given = taught("vanilla-etf")
    late = replace(given, step=LONGEST + arrival(given, 3))
    assert PROBES["cosines"](late)["cosine_classes"] == [3] and PROBES["features"](late)
    later = replace(late, step=late.step + 1)
    assert PROBES["cosines"](later) == PROBES["features"](later) == {}


def test_what_is_no_number_is_left_to_figures():
    extra = {"updates": 3, "bias": 0.5, "cosines": [[0.1]], "cosine_ages": [1, 2]}
    e = Evaluation(1, 0, {0: 1}, {0: 2}, 0, 1, extra)
    assert e.numbers == {"updates": 3, "bias": 0.5}
    assert Scalars()(e).keys() == {
        "accuracy",
        "online_accuracy",
        "A_AUC",
        "classes_seen",
        "updates",
        "bias",
    }


def test_a_probe_is_handed_what_has_arrived(make, dataset):
    stream = Stream(dataset.train, disjoint(dataset.train, seed=1, tasks=2))
    all_given = []

    def look(given):
        all_given.append(given)
        return {"looked": float(len(given.seen))}

    learner = make("er", iterations=0.25)
    moments = learn_online(learner, stream, Exam(dataset.test), every=10, probes={"look": look})
    records = [m.evaluation for _, m in zip(range(20), moments, strict=False) if m.evaluation]
    assert [e.extra["looked"] for e in records] == [10, 20] == [s.step for s in all_given]
    assert torch.equal(all_given[1].seen, stream.schedule.order[:20])
    assert all_given[1].train is dataset.train and all_given[1].test is dataset.test
    *_, extra = examine(learner, stream, Exam(dataset.test), 20, {})
    assert "looked" not in extra
