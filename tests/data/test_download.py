"""Downloads: verified, continued where they stopped, unpacked and tidied up."""

import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from datasets_trees import tar_of
from earl.data import download as downloads
from earl.data.download import ARCHIVES, Archive, Limits, fetch
from earl.errors import DataNotFound, EarlError, UnsafeArchive

LIMITS = Limits(bytes=1 << 20, members=1000)


class Handler(BaseHTTPRequestHandler):
    """Serves one file, with ranges; `server.cut` bytes of it and no more, once."""

    def do_GET(self):
        data, start = self.server.data, 0
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        if self.path != "/set.tar.gz":
            self.send_error(404)
            return
        if asked and self.server.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end, self.server.cut = self.server.cut or len(data), None
        self.wfile.write(data[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.data = tar_of(("set/images.bin", os.urandom(600_000)))
        running.asked, running.ranges, running.cut = [], True, None
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def archive_of(server, **changes):
    url = f"http://127.0.0.1:{server.server_port}/set.tar.gz"
    checksum = f"sha256:{hashlib.sha256(server.data).hexdigest()}"
    return Archive(
        **({"url": url, "checksum": checksum, "makes": "set", "limits": LIMITS} | changes)
    )


def test_download_is_verified_unpacked_and_tidied_up(server, tmp_path):
    seen = []
    folder = fetch(archive_of(server, within="inner"), tmp_path, lambda *p: seen.append(p))
    assert (
        folder == tmp_path / "inner" / "set" and (folder / "images.bin").stat().st_size == 600_000
    )
    assert seen[-1][1:] == (len(server.data), len(server.data))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["downloads", "inner"]
    assert not list((tmp_path / "downloads").iterdir())
    assert fetch(archive_of(server, within="inner"), tmp_path) == folder  # there: nothing to do
    assert len(server.asked) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_interrupted_download_goes_on_where_it_stopped(server, tmp_path, ranges):
    server.cut, server.ranges = 200_000, ranges
    with pytest.raises(EarlError, match="goes on where it stopped"):
        fetch(archive_of(server), tmp_path)
    assert fetch(archive_of(server), tmp_path).is_dir()
    assert server.asked == [None, "bytes=200000-"]


def test_whole_partial_file_is_not_downloaded_again(server, tmp_path):
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "set.tar.gz.part").write_bytes(server.data)
    assert fetch(archive_of(server), tmp_path).is_dir()


def test_wrong_checksum_is_refused_before_parsing(server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "unpack", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(UnsafeArchive, match="not the file it should be"):
        fetch(archive_of(server, checksum="md5:" + "0" * 32), tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_missing_file_and_missing_server_say_what_to_do(server, tmp_path):
    gone = archive_of(server, url=f"http://127.0.0.1:{server.server_port}/other")
    with pytest.raises(EarlError, match=r"404.*put the file into .*downloads yourself"):
        fetch(gone, tmp_path)
    with pytest.raises(EarlError, match="could not be downloaded"):
        fetch(archive_of(server, url="http://127.0.0.1:9/set.tar.gz"), tmp_path)


def test_archive_without_its_folder_is_refused(server, tmp_path):
    with pytest.raises(UnsafeArchive, match="holds no folder other"):
        fetch(archive_of(server, makes="other"), tmp_path)
    assert not (tmp_path / "other").exists()


def test_what_cannot_be_downloaded_is_said(tmp_path):
    with pytest.raises(DataNotFound, match="earl data info imagenet-1k"):
        downloads.download("imagenet-1k", tmp_path)


def test_missing_extra_is_named(server, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(EarlError, match=r'pip install "earl-learn\[data\]"'):
        fetch(archive_of(server), tmp_path)


def test_every_archive_has_a_checksum_and_limits():
    for archives in ARCHIVES.values():
        for archive in archives:
            kind, _, digest = archive.checksum.partition(":")
            assert len(digest) == {"md5": 32, "sha256": 64}[kind]
            assert archive.limits.bytes <= 100 << 30 and Path(archive.makes).name == archive.makes
