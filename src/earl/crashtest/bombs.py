"""C8: images that promise more than they are, eight at a time."""

import io
import os
import random
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from PIL import Image

from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import JSON, Server, lesson, png, question
from earl.crashtest.small import ready, stream

PARALLEL = 8
MB, MS = 64, 200  # more memory of the service, and time of the processor for one image


def bombs(trial: Trial) -> Found:
    """Send each bomb eight times at once; the sabotage looks at no size before."""
    ready()
    server = Server(trial.place / "state", sabotage=unlimited if trial.sabotage else None).start()
    assert server.life is not None
    pid, image = server.life.pid, png(stream(4).images[0])
    server.learn(stream(4).images[0], "a")
    with ThreadPoolExecutor(PARALLEL) as clients:
        list(clients.map(lambda _: post(server, 0, image), range(4 * PARALLEL)))  # warm
        server.settle()
        found = trial.found(bombs=0, sent=0, refused=0, mb=0.0, cpu_ms=0.0)
        held = memory_of(pid)
        for number, (name, data) in enumerate(islice(bomb_files(trial.rng), trial.count)):
            used = cpu_of(pid)
            sent = clients.map(lambda n: post(server, n, data), range(PARALLEL))  # noqa: B023
            note_answers(name, list(sent), found)
            each = 1000 * (cpu_of(pid) - used) / PARALLEL
            found.figures["bombs"] = number + 1
            found.figures["cpu_ms"] = max(found.figures["cpu_ms"], round(each, 1))
            found.expect(each < MS, f"{name}: {each:.0f} ms were calculated for each")
            more = round(memory_of(pid) - held, 1)
            found.figures["mb"] = more
            found.expect(more < MB, f"{name}: {more} MB more were held by then")
    found.expect(server.stop() == 0, "it did not end in peace")
    return found


def post(server: Server, number: int, data: bytes) -> tuple[int, str]:
    """Teach or ask about an image, by turns; return how that was answered."""
    path, body = ("/learn", lesson(data, "a")) if number % 2 else ("/predict", question(data))
    status, answer = server.ask("POST", path, body=body, headers=JSON)
    return status, str(answer)[:100]


def note_answers(name: str, answers: list[tuple[int, str]], found: Found) -> None:
    for status, answer in answers:
        found.figures["sent"] += 1
        found.figures["refused"] += 400 <= status < 500
        found.expect(400 <= status < 500, f"{name}: {status} {answer}")


def bomb_files(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield images that are too large, cut short, or something else, without end."""
    small = png(stream(4).images[0])
    while True:
        side = rng.choice([9400, 20_000, 60_000])
        yield f"a PNG of {side} x {side} in one bit", png_of(side, side, depth=1)
        yield "a PNG of 30,000 x 1", png_of(30_000, 1)
        yield "a PNG that is cut short", small[: rng.randrange(8, len(small) - 12)]
        yield "a PNG as large as may be that is cut short", png_of(4096, 3072, colours=2)[:-60]
        yield "a PNG larger than may be that is cut short", png_of(4097, 3072, colours=2)[:-60]
        yield "a text of 50 MB in a PNG", with_chunk(small, b"zTXt", b"k\0\0", 50)
        yield "a colour profile of 50 MB in a PNG", with_chunk(small, b"iCCP", b"k\0\0", 50)
        yield "an animation of 60,000 x 60,000", png_of(60_000, 60_000, more=ANIMATED)
        yield "a GIF without frames", b"GIF89a" + struct.pack("<HHBBB", 60_000, 60_000, 0, 0, 0)
        yield "a WebP that is cut short", file_of("WEBP", 2000)[: rng.randrange(60, 200)]
        yield "a JPEG that is cut short", file_of("JPEG", 4000)[: rng.randrange(700, 4000)]
        yield "a TIFF", file_of("TIFF", 64)
        yield "a TIFF of nothing", b"II*\0" + rng.randbytes(60)
        yield "a BMP of 60,000 x 60,000", bmp_of(60_000, 60_000)
        yield "a BMP of 4,000 x 4,000 without its pixels", bmp_of(4000, 4000)
        yield "a JPEG whose EXIF data point nowhere", exif_bomb(rng)
        yield "a page and an image", b"<html><script>alert(1)</script>" + small
        yield "an archive", b"PK\3\4" + small
        yield "noise", rng.randbytes(2000)


def png_of(width: int, height: int, depth: int = 8, colours: int = 0, more: bytes = b"") -> bytes:
    """Return a PNG of zeros that promises so many pixels, in few bytes."""
    row = 1 + -(-width * depth * (3 if colours else 1) // 8)
    data = zlib.compress(bytes(min(row * height, 40_000_000)), 6)
    head = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)
    chunks = [chunk(b"IHDR", head), more, chunk(b"IDAT", data), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


ANIMATED = chunk(b"acTL", struct.pack(">II", 10**6, 0))


def with_chunk(image: bytes, name: bytes, head: bytes, megabytes: int) -> bytes:
    """Return a PNG that ends too early, with a chunk that unpacks to so much."""
    packed = head + zlib.compress(bytes(megabytes << 20), 9)
    return image[:33] + chunk(name, packed) + image[33 : len(image) // 2]


def file_of(kind: str, side: int) -> bytes:
    """Return a black image as a file."""
    file = io.BytesIO()
    Image.new("RGB", (side, side)).save(file, kind)
    return file.getvalue()


def exif_bomb(rng: random.Random) -> bytes:
    """Return a JPEG with wild EXIF data, whose pixels are cut off."""
    entries = b"".join(
        struct.pack("<HHII", 0x0112, 3, 0xFFFFFFFF, rng.getrandbits(31)) for _ in range(2000)
    )
    data = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", 2000) + entries
    whole = file_of("JPEG", 64)
    return whole[:2] + b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data + whole[2:500]


def bmp_of(width: int, height: int) -> bytes:
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + head


def memory_of(pid: int | str) -> float:
    """Return the most memory that a process has held, in MB, where Linux tells it, or 0."""
    status = Path(f"/proc/{pid}/status")  # `getrusage` would count the parent's before exec
    lines = status.read_text().splitlines() if status.exists() else ["VmHWM: 0 kB"]
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def cpu_of(pid: int) -> float:
    """Return the seconds of a core that a process has taken in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def unlimited() -> None:
    """The sabotage: images may be of any size."""
    from earl.service import images, service

    put(service, "checked", lambda data, size, limits: images.decoded(data, size))
