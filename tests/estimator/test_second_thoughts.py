"""Forgetting, relabelling, neighbours, what is unknown, and how learning went."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from earl import EARLClassifier
from earl.errors import InvalidInput, InvalidSetting, NotFitted
from earl.estimator.history import POINTS, WINDOW, History
from earl.estimator.keys import kept
from earl.methods.earl.earl import EARL
from estimators import LABELS, TEST, TRAIN, blobs, of_images, of_vectors, taught


def stored(clf: EARLClassifier) -> list[bytes]:
    """Return the content of all samples that an estimator keeps."""
    assert clf._model is not None and clf._model.learner is not None
    return [x.numpy().tobytes() for _, _, x, _ in kept(clf._model.learner)]


def raw(place: int) -> bytes:
    return TRAIN[place].transpose(2, 0, 1).tobytes()


@pytest.mark.parametrize("method", ["earl", "er", "er-mir", "der++", "scr", "polrs"])
def test_a_forgotten_sample_is_kept_nowhere(method: str) -> None:
    clf = taught(30, method=method)
    there = next(place for place in range(29, -1, -1) if raw(place) in stored(clf))
    assert clf.forget(key=there) == 1
    assert raw(there) not in stored(clf)
    assert clf.forget(key=there) == 0 and clf.forget(key="never") == 0
    clf.learn_many(TRAIN[30:40], LABELS[30:40])
    assert np.isfinite(clf.predict_proba(TEST)).all()


def test_features_of_a_forgotten_sample_correct_no_answer() -> None:
    clf = taught(30)
    learner = clf._model.learner  # type: ignore[union-attr]
    assert isinstance(learner, EARL)
    there = next(place for place in range(29, -1, -1) if raw(place) in stored(clf))
    number = int(learner.classes.numbers(torch.tensor([list(clf.classes_).index(LABELS[there])])))
    clf.forget(key=there)
    h_hat, y = learner.residuals.pairs()
    rows = learner.memory.rows_of(number)[: learner.residuals.per_class]
    (x,) = learner.memory.take(torch.tensor(rows), "x")
    torch.testing.assert_close(h_hat[y == number], learner.features(x))


@pytest.mark.parametrize("method", ["earl", "er", "scr"])
def test_a_forgotten_label_is_not_answered_until_it_is_learned_again(method: str) -> None:
    clf = taught(40, method=method)
    label, others = LABELS[0], set(LABELS) - {LABELS[0]}
    assert clf.forget(label=label) > 0
    assert set(clf.predict(TEST)) <= others
    assert (clf.predict_proba(TEST)[:, list(clf.classes_).index(label)] == 0).all()
    assert label not in clf.predict_proba_one(TEST[0]) and label in clf.classes_
    assert clf.forget(label=label) == 0
    clf.learn_one(TRAIN[0], label)
    assert label in clf.predict_proba_one(TEST[0])


def test_when_every_label_is_forgotten_nothing_is_answered() -> None:
    clf = taught(20)
    for label in set(LABELS):
        clf.forget(label=label)
    assert clf.predict_one(TEST[0]) is None and stored(clf) == []
    with pytest.raises(NotFitted):
        clf.predict(TEST)
    clf.learn_one(TRAIN[0], "a")
    assert clf.predict_one(TEST[0]) == "a"


def test_relabelling_is_forgetting_and_learning_with_the_other_label() -> None:
    clf, other = taught(30), taught(30)
    clf.relabel(29, "other")
    other.forget(key=29)
    other.learn_one(TRAIN[29], "other", key=29)
    same = [each._model.learner.state_dict() for each in (clf, other)]  # type: ignore[union-attr]
    assert torch.equal(same[0]["memory"]["columns"]["y"], same[1]["memory"]["columns"]["y"])
    assert clf.predict(TEST).tolist() == other.predict(TEST).tolist()
    assert clf.history.samples == 30  # nobody was asked about it
    with pytest.raises(InvalidInput, match="no sample with the key 'x'"):
        clf.relabel("x", "other")


def test_what_cannot_be_forgotten_is_said() -> None:
    clf = taught(10)
    for wrong in ({}, {"key": 1, "label": "a"}):
        with pytest.raises(InvalidInput, match="either key"):
            clf.forget(**wrong)
    with pytest.raises(InvalidInput, match="never learned"):
        clf.forget(label="nobody")
    with pytest.raises(InvalidInput, match="a key is a text or a whole number"):
        clf.learn_one(TRAIN[0], "a", key=1.5)  # type: ignore[arg-type]


def test_keys_are_bounded_by_what_is_kept() -> None:
    X, y = blobs(400)
    clf = of_vectors(memory_size=10, steps_per_sample=0.01)
    clf.learn_many(X, y, keys=range(400))
    assert len(clf._model.keys) <= 2 * 10 + 64  # type: ignore[union-attr]
    assert sum(clf.forget(key=key) for key in range(400)) == 10 and stored(clf) == []


def test_neighbours_have_the_weights_of_the_correction() -> None:
    clf = taught(60)
    learner = clf._model.learner  # type: ignore[union-attr]
    assert isinstance(learner, EARL)
    x = torch.from_numpy(TEST[:1].transpose(0, 3, 1, 2).copy())
    found = clf.neighbours(TEST[0])
    assert sum(n.weight for n in found) == pytest.approx(1)
    assert [n.weight for n in found] == sorted((n.weight for n in found), reverse=True)
    vectors = learner.vectors()
    names = list(clf.classes_)
    pull = sum(n.weight * vectors[names.index(n.label)] for n in found)
    h_hat, _ = learner.residuals.pairs()
    f_hat = learner.features(x)
    near, nearest = torch.cdist(f_hat, h_hat)[0].topk(learner.k, largest=False)
    h = torch.softmax(-near / learner.tau, 0) @ h_hat[nearest]
    torch.testing.assert_close(f_hat[0] + pull - h, learner.corrected(f_hat)[0])
    for n in found:
        assert n.sample is not None and raw(n.key) == n.sample.transpose(2, 0, 1).tobytes()  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="corrects no answers"):
        taught(5, method="er").neighbours(TEST[0])


def test_unknown_is_one_minus_the_largest_cosine() -> None:
    clf = taught(60)
    learner = clf._model.learner  # type: ignore[union-attr]
    x = torch.from_numpy(TEST.transpose(0, 3, 1, 2).copy())
    cosines = torch.nn.functional.cosine_similarity(
        learner.features(x)[:, None], learner.vectors()[None], dim=2
    )
    expected = 1 - cosines.amax(dim=1)
    np.testing.assert_allclose(clf.unknown_score(TEST), expected.clamp(0, 1), atol=1e-6)
    middle = float(np.median(1 - clf.unknown_score(TEST)))
    answers = clf.predict(TEST, unknown_below=middle)
    assert [a is None for a in answers] == (1 - clf.unknown_score(TEST) < middle).tolist()
    assert clf.predict(TEST, unknown_below=0.0).tolist() == clf.predict(TEST).tolist()
    assert clf.predict_one(TEST[0], unknown_below=middle) == answers[0]
    with pytest.raises(InvalidSetting, match="between 0 and 1"):
        clf.predict(TEST, unknown_below=2)


def test_what_was_never_taught_is_more_unknown() -> None:
    X, y = blobs(400, classes=4, length=16)
    clf = of_vectors(memory_size=100, settings={"d": 63, "hidden": 64})
    known = [c != 3 for c in y]
    clf.fit(X[known][:250], [c for c in y if c != 3][:250])
    assert np.median(clf.unknown_score(X[np.invert(known)])) > np.median(
        clf.unknown_score(X[known])
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=3 * POINTS))
def test_histories_count_right_answers_in_bounded_space(answers: list[tuple[int, bool]]) -> None:
    history = History()
    for number, right in answers:
        history.note(number, right)
    again = History()
    again.load_state_dict(history.state_dict())
    for each in (history, again):
        assert each.all.right == sum(right for _, right in answers)
        last = [right for _, right in answers][-WINDOW:]
        assert each.all.recent == (sum(last) / len(last) if last else 0)
        curve = each.curve()
        assert len(curve) <= POINTS
        start, total = 0, 0.0
        for end, accuracy in curve:
            part = [right for _, right in answers[start:end]]
            assert accuracy == pytest.approx(sum(part) / len(part))
            start, total = end, total + len(part)
        assert total == len(answers)
        for number, tally in enumerate(each.classes):
            own = [right for c, right in answers if c == number]
            assert (tally.samples, tally.right) == (len(own), sum(own))


def test_the_history_is_that_of_answers_given_before_learning() -> None:
    clf, right = of_images(), []
    for x, label in zip(TRAIN[:60], LABELS[:60], strict=True):
        right.append(clf.predict_one(x) == label)
        clf.learn_one(x, label)
    history = clf.history
    assert history.accuracy == pytest.approx(np.mean(right)) and history.samples == 60
    assert [a for _, a in history.curve] == [float(r) for r in right]
    assert taught(60).history == history  # whether anybody asked or not
    assert {label: record.samples for label, record in history.classes.items()} == {
        label: LABELS[:60].count(label) for label in LABELS[:60]
    }
