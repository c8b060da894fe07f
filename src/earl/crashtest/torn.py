"""C2: whoever asks while it learns is answered by one state, never by parts of two."""

import http.client
import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ask_child
from earl.crashtest.sabotage import put
from earl.crashtest.serving import JSON, Server, lesson, operations, parameters, png, question
from earl.crashtest.small import Samples, ready, stream
from earl.estimator import EARLClassifier
from earl.estimator.model import Model
from earl.service import published
from earl.service.images import decoded
from earl.service.operations import Wish, apply
from earl.service.published import Published
from earl.service.session import Session

TOGETHER = 4  # images of a question
READERS = 2  # that ask at a time
EVERY = 12  # questions to a sample that is taught meanwhile
CLASSES = 12  # of which the last arrives near the end
OVER_HTTP = 100  # answers to one question over HTTP
WHOLE = ("network", "residuals", "labels")

Answers = Callable[[Published], Any]


def torn_reads(trial: Trial) -> Found:
    """Ask the published model while it learns; the sabotage publishes the model that learns."""
    ready()
    calls = -(-trial.count // TOGETHER)
    samples = stream(max(CLASSES, calls // EVERY))
    found = trial.found(answers=calls * TOGETHER, mixed=0, models=0, back=0)
    folder = trial.place / "session"
    seen = ask_child(lambda: read_all(folder, samples, calls, trial.sabotage))
    if not found.expect(seen is not None, "the session has failed"):
        return found
    compare(folder, {json.dumps(key): n for key, n in seen["readings"]}, seen_here(samples), found)
    note_back(found, seen["back"])
    over_http(trial, samples, -(-trial.count // OVER_HTTP), found)
    return found


def read_all(folder: Path, samples: Samples, calls: int, sabotaged: bool) -> dict[str, Any]:
    """Teach and ask in one process; return every kind of answer with how often it came."""
    if sabotaged:
        put(published, "answering_copy", lambda model: model)
    session = Session(folder, parameters())
    session.start()
    lessons = taught(samples)
    session.learn([next(lessons)]).result()
    while not session.published.model.can_answer:
        time.sleep(0.01)
    look, readings, asked, back = seen_here(samples), Counter[str](), Counter[int](), [0]
    first = session.published

    def note(model: Published) -> None:
        readings[json.dumps([model.seq, attempt(look, model)])] += 1

    def read(reader: int) -> None:
        last = 0
        for _ in range(reader, calls, READERS):
            model = session.published
            note(model)
            back[0] += model.seq < last
            last = model.seq
            asked[reader] += 1

    readers = [threading.Thread(target=read, args=(n,)) for n in range(READERS)]
    for thread in readers:
        thread.start()
    for place, lesson_ in enumerate(lessons, 1):
        while asked.total() < min(calls, EVERY * place):
            time.sleep(0.001)
        session.learn([lesson_]).result()
    for thread in readers:
        thread.join()
    while session.published.seq == first.seq:
        time.sleep(0.01)
    note(first)  # whoever took it in the beginning may still ask it
    session.stop()
    return {"readings": [[json.loads(key), n] for key, n in readings.items()], "back": back[0]}


def taught(samples: Samples) -> Iterator[Wish]:
    """Yield samples whose classes arrive one after the other, to the end."""
    for place, image in enumerate(samples.images):
        label = f"class {place % (1 + CLASSES * place // len(samples))}"
        yield Wish(kind="learn", image=png(image), label=label)


def seen_here(samples: Samples) -> Answers:
    """Return what tells a state by its answers and by each of its parts."""
    probes = list(samples.probes[:TOGETHER])

    def look(model: Published) -> Any:
        answers = model.answer(probes, top=CLASSES, explain=False)
        return [marked(json.dumps(answers).encode()), *marks(model.model)]

    return look


def attempt(look: Answers, model: Published) -> Any:
    """Return what is seen of a model, or why it cannot be asked: then it is no whole state."""
    try:
        return look(model)
    except Exception as error:
        return type(error).__name__


def marks(model: Model) -> list[int]:
    """Return a number for the weights, one for the stored features, one for the labels."""
    assert model.learner is not None
    parts = model.learner.parts()
    tensors = (parts[name].state_dict() for name in WHOLE[:2])
    labels = [*map(str, model.labels), len(model.learner.classes), model.history.all.samples]
    return [*(marked(*bytes_of(state)) for state in tensors), marked(json.dumps(labels).encode())]


def bytes_of(state: Any) -> Iterator[bytes]:
    """Yield the bytes of all tensors of a state."""
    if isinstance(state, Tensor):
        yield state.detach().contiguous().numpy().tobytes()
    elif isinstance(state, dict):
        for value in state.values():
            yield from bytes_of(value)


def marked(*data: bytes) -> int:
    number = 0
    for part in data:
        number = zlib.crc32(part, number)
    return number


def compare(folder: Path, readings: dict[str, int], look: Answers, found: Found) -> None:
    """Compare what was seen with the states of a replay, each by its number."""
    seqs = {json.loads(key)[0] for key in readings}
    found.figures["models"] += len(seqs)
    right = {seq: look(model) for seq, model in replay(folder, seqs)}
    for key, count in readings.items():
        seq, seen = json.loads(key)
        if seen != right.get(seq):
            found.figures["mixed"] += count
            found.expect(False, f"{count} answers of model {seq} are of no state: {seen}")


def replay(folder: Path, seqs: set[int]) -> Iterator[tuple[int, Published]]:
    """Do all operations of a journal again; yield the model after those that are asked for."""
    clf = EARLClassifier(**parameters())
    for one in operations(folder):
        assert one.image is not None
        apply(clf, one, decoded(one.image, parameters()["image_size"]))
        if one.seq in seqs:
            yield one.seq, Published.of(clf._current(), one.seq)


# ---- over HTTP


def over_http(trial: Trial, samples: Samples, calls: int, found: Found) -> None:
    """Ask over connections that stay open: the model is never an older one than before."""
    server = Server(trial.place / "state").start()
    pictures = [png(image) for image in samples.probes[:TOGETHER]]
    lessons = taught(samples)
    bodies = [lesson(one.image or b"", one.label or "") for one in lessons]
    post(server, bodies[0])
    server.settle()
    with ThreadPoolExecutor(READERS + 1) as threads:
        jobs = [threads.submit(ask_many, server.port, pictures, calls) for _ in range(READERS)]
        for body in bodies[1:]:
            if all(job.done() for job in jobs):
                break
            post(server, body)
        readings = [row for job in jobs for row in job.result()]
    back = sum(job.result() != sorted(job.result(), key=lambda row: row[0]) for job in jobs)
    note_back(found, back)
    found.expect(server.stop() == 0, "it did not end in peace")
    probes = list(samples.probes[:TOGETHER])

    def look(model: Published) -> Any:
        answers = model.answer(probes, top=CLASSES, explain=False)
        return marked(json.dumps(answers).encode())

    compare(server.folder, dict(Counter(json.dumps(row) for row in readings)), look, found)
    found.figures["over_http"] = len(readings)


def post(server: Server, body: bytes) -> None:
    status, answer = server.ask("POST", "/learn", body=body, headers=JSON)
    assert status == 202, answer


def ask_many(port: int, pictures: list[bytes], calls: int) -> list[list[int]]:
    """Ask so often over one connection; return the number of the model and a mark of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    rows, body = [], question(*pictures)
    for _ in range(calls):
        connection.request("POST", f"/predict?top={CLASSES}", body, JSON)
        answer = json.loads(connection.getresponse().read())
        rows.append([answer["model_seq"], marked(json.dumps(answer["answers"]).encode())])
    connection.close()
    return rows


def note_back(found: Found, back: int) -> None:
    found.figures["back"] += back
    found.expect(back == 0, f"{back} times the model was older than the one before")
