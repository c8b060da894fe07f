"""Preparatory data: which images are made of which, and how many."""

import numpy as np
import pytest
import torch

from earl.learning.memory import Memory
from earl.learning.policies import greedy_balanced
from earl.methods.earl.negatives import NEGATIVES, Negative
from earl.methods.earl.preparatory import (
    PreparatoryData,
    all_forms,
    distinct_images_of,
    images_of,
    one_form_each,
    others,
)
from earl.randomness import Randomness
from seeds import generator, looks_uniform


def mapping(K, seed=0, negative=NEGATIVES["rotation"]):
    return PreparatoryData(K, negative, Randomness(seed))


# ---- the data


def images(labels):
    """Return images whose pixels tell their place in the stream: 4 x 4, no two rows alike."""
    base = torch.arange(16).view(1, 1, 4, 4)
    return (base + 16 * torch.arange(len(labels)).view(-1, 1, 1, 1)).byte()


def remembering(labels):
    memory = Memory(len(labels), greedy_balanced)
    memory.add(generator(), x=images(labels), y=torch.tensor(labels))
    return memory


def plain(x, generator):
    return x.float()


def make(prepare, memory, classes, forms, augment, generator):
    """Draw an image of every class, augment it, transform it into its forms."""
    X = augment(images_of(classes, memory, generator), generator)
    return prepare.transform(X, classes, forms, memory, augment, generator)


class Spy:
    """A negative transformation that remembers what it was given."""

    def __call__(self, x, g, partner, generator):
        self.x, self.g, self.partner = x, g, partner
        return -x


def test_every_image_gets_the_target_of_its_class_and_form():
    labels = [0, 1, 2, 0, 1, 2]
    memory, spy = remembering(labels), Spy()
    prepare = mapping(50, negative=Negative(spy))
    prepare.assign(3)
    classes = torch.tensor([2, 0, 2, 1])
    forms = torch.tensor([[0, 2], [1, 1], [2, 0], [1, 0]])
    X_p, Y_p = make(prepare, memory, classes, forms, plain, generator())
    expected = [int(prepare.m[c, g]) for c, gs in zip(classes, forms, strict=True) for g in gs]
    assert Y_p.tolist() == expected
    assert torch.equal(X_p, -spy.x) and X_p.shape == (8, 1, 4, 4)
    assert spy.g.tolist() == forms.flatten().tolist() and spy.partner is None
    for i, x in enumerate(spy.x):
        row = int(x[0, 0, 0]) // 16
        assert torch.equal(x, images(labels)[row].float())
        assert labels[row] == int(classes[i // 2])
    assert torch.equal(spy.x[0::2], spy.x[1::2])  # the forms of one image are of one image


def test_images_are_augmented_once_and_transformed_afterwards():
    memory, spy = remembering([0, 1]), Spy()
    prepare = mapping(50, negative=Negative(spy))
    prepare.assign(2)
    sizes = []

    def brighter(x, generator):
        sizes.append(len(x))
        return x.float() + 1000

    classes, forms = torch.tensor([0, 1, 1]), torch.arange(3).expand(3, 3)
    X_p, _ = make(prepare, memory, classes, forms, brighter, generator())
    assert sizes == [3]
    assert bool((spy.x >= 1000).all()) and bool((X_p <= -1000).all())


def test_rotations_turn_the_image_of_the_class_by_their_number_of_quarters():
    labels = [0, 1, 1, 0]
    memory, prepare = remembering(labels), mapping(50)
    prepare.assign(2)
    classes, forms = torch.tensor([1, 0]), torch.arange(3).expand(2, 3)
    X_p, Y_p = make(prepare, memory, classes, forms, plain, generator(4))
    assert Y_p.tolist() == prepare.m[[1, 0]].flatten().tolist()
    for i, c in enumerate(classes.tolist()):
        turned_back = [X_p[3 * i + g].rot90(-(g + 1), (1, 2)) for g in range(3)]
        assert all(torch.equal(x, turned_back[0]) for x in turned_back)
        row = int(turned_back[0][0, 0, 0]) // 16
        assert labels[row] == c and torch.equal(turned_back[0], images(labels)[row].float())


def test_the_image_is_drawn_uniformly_within_its_class():
    memory, spy = remembering([0, 0, 0, 1]), Spy()
    prepare = mapping(50, negative=Negative(spy))
    prepare.assign(2)
    n = 600
    make(prepare, memory, torch.zeros(n).long(), torch.zeros(n, 1).long(), plain, generator())
    rows = (spy.x[:, 0, 0, 0] // 16).long().bincount(minlength=4)
    assert rows[3] == 0 and looks_uniform(rows[:3].numpy())


def test_the_partner_of_a_mixture_is_of_another_class():
    labels = [0, 1, 2, 0, 1, 2]
    memory, spy = remembering(labels), Spy()
    prepare = mapping(50, negative=Negative(spy, needs_partner=True))
    prepare.assign(3)
    classes = torch.tensor([0, 1, 2] * 20)
    make(prepare, memory, classes, torch.arange(3).expand(60, 3), plain, generator())
    assert spy.partner.shape == spy.x.shape
    own = (spy.x[:, 0, 0, 0] // 16).long()
    partner = (spy.partner[:, 0, 0, 0] // 16).long()
    y = torch.tensor(labels)
    assert y[own].tolist() == classes.repeat_interleave(3).tolist()
    assert bool((y[own] != y[partner]).all())


def test_cutmix_mixes_pixels_of_the_image_and_its_partner_in_place():
    labels = [0, 1]
    memory, prepare = remembering(labels), mapping(50, negative=NEGATIVES["cutmix"])
    prepare.assign(2)
    X_p, _ = make(prepare, memory, torch.tensor([0]), torch.arange(3)[None], plain, generator(2))
    a, b = images(labels).float()
    for x in X_p:
        assert bool(((x == a) | (x == b)).all())
        assert bool((x == a).any()) and bool((x == b).any())


def test_the_only_class_is_its_own_partner():
    memory, spy = remembering([0, 0]), Spy()
    prepare = mapping(50, negative=Negative(spy, needs_partner=True))
    prepare.assign(1)
    X_p, Y_p = make(prepare, memory, torch.tensor([0]), torch.tensor([[1]]), plain, generator())
    assert spy.partner.shape == X_p.shape == (1, 1, 4, 4)
    assert Y_p.tolist() == [int(prepare.m[0, 1])]


def test_another_class_is_drawn_uniformly_from_those_with_images():
    memory = Memory(4, greedy_balanced)
    memory.add(generator(), y=torch.tensor([0, 2, 3, 5]))  # classes 1 and 4 have no image
    for c in (0, 2, 3, 5):
        drawn = others(memory, torch.full((900,), c), generator(c))
        counts = drawn.bincount(minlength=6)
        assert set(drawn.tolist()) == {0, 2, 3, 5} - {c}
        assert looks_uniform(counts[counts > 0].numpy())


# ---- how many, and which


def some_of_each(n, each):
    memory = Memory(n * each, greedy_balanced)
    memory.add(generator(), y=torch.arange(n).repeat(each))
    return memory


def test_one_form_each_draws_classes_and_forms_uniformly():
    memory = Memory(9, greedy_balanced)  # unequal classes, one of them empty
    memory.add(generator(), y=torch.tensor([0, 0, 0, 0, 0, 2, 2, 3, 3]))
    classes, forms = one_form_each(memory, 1800, generator(1))
    assert classes.shape == (1800,) and forms.shape == (1800, 1)
    counts = (3 * classes + forms[:, 0]).bincount(minlength=12).view(4, 3)
    assert int(counts[1].sum()) == 0
    assert looks_uniform(counts[[0, 2, 3]].numpy())


PUBLISHED = {  # expected preparatory images per step, by batch size and number of classes
    16: {1: 48, 2: 48, 4: 48, 6: 36, 10: 24},
    32: {1: 96, 2: 96, 4: 96, 6: 60, 10: 36, 20: 24, 50: 12, 100: 7.7, 200: 3.8},
    256: {1: 768, 2: 768, 4: 768, 6: 516, 10: 312, 20: 156, 50: 60, 100: 36, 200: 12, 1000: 6.1},
}


@pytest.mark.parametrize(
    ("batch", "n", "expected"),
    [(batch, n, count) for batch, row in PUBLISHED.items() for n, count in row.items()],
)
def test_all_forms_makes_the_published_number_of_images(batch, n, expected):
    memory, g = some_of_each(n, max(1, round(batch / n))), generator(batch + n)
    drawn = [all_forms(memory, batch, g)[1].numel() for _ in range(1000 if expected < 12 else 20)]
    if expected >= 12:
        assert set(drawn) == {expected}
    else:  # all or nothing, 12 images with probability 2 batch / n
        assert set(drawn) == {0, 12}
        error = 12 * (0.25 / len(drawn)) ** 0.5
        assert abs(np.mean(drawn) - 24 * batch / n) < 3 * error
        assert 24 * batch / n == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("n", [1, 3, 4, 9])
def test_all_forms_draws_up_to_four_classes_alike_in_every_form(n):
    memory, g, times = some_of_each(n, 12), generator(), np.zeros(n)
    for _ in range(200):
        classes, forms = all_forms(memory, 12, g)
        assert forms.tolist() == [[0, 1, 2]] * len(classes)
        chosen, each = classes.unique(return_counts=True)
        assert len(chosen) == min(4, n) and len(each.unique()) == 1
        times[chosen.tolist()] += 1
    assert looks_uniform(times)


def test_all_forms_takes_no_more_images_of_a_class_than_it_has():
    memory = Memory(9, greedy_balanced)
    memory.add(generator(), y=torch.tensor([0, 2, 2, 2, 3, 3, 3, 3, 3]))  # none of class 1
    for seed in range(20):
        classes, forms = all_forms(memory, 12, generator(seed))  # 12 / 3 of each
        assert classes.bincount(minlength=4).tolist() == [1, 0, 3, 4] and len(forms) == 8


def test_on_top_no_image_is_drawn_twice():
    labels = [0] * 5 + [1] * 3 + [2] * 4
    memory, times = remembering(labels), np.zeros(len(labels))
    for seed in range(200):
        classes = torch.tensor([2, 2, 0, 0, 0, 1, 1, 1])
        x = distinct_images_of(classes, memory, generator(seed))
        rows = (x[:, 0, 0, 0].int() // 16).tolist()
        assert len(set(rows)) == 8
        assert [labels[row] for row in rows] == classes.tolist()
        times[rows] += 1
    assert set(times[5:8]) == {200}  # all that class 1 has
    assert looks_uniform(times[:5]) and looks_uniform(times[8:])


def test_on_top_no_class_gives_nothing():
    memory = remembering([0, 1])
    assert len(distinct_images_of(torch.empty(0, dtype=torch.int64), memory, generator())) == 0
