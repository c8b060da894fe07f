"""Runs to write a page about, and a reader of pages, for tests of pages."""

import json
import re
from html.parser import HTMLParser

from earl.experiments.runs.records import find_runs
from earl.report.page import make_page
from run_folders import write_run, write_summary

# Accuracies at four evaluations of two seeds. At the end: der++ 25 %, earl 80 %, er 55 %
RUNS = {
    "er": ((0.9, 0.7, 0.6, 0.5), (0.9, 0.8, 0.7, 0.6)),
    "earl": ((0.9, 0.8, 0.8, 0.8), (1.0, 0.9, 0.8, 0.8)),
    "der++": ((1.0, 0.6, 0.4, 0.2), (1.0, 0.6, 0.5, 0.3)),
}
COSTS = {"updates": 160, "images": 2560, "flops": 1.5e9, "bytes": 2048}
EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def write_page_runs(folder, methods=tuple(RUNS), **given):
    for method in methods:
        for seed, accuracies in enumerate(RUNS[method], start=1):
            write_run(folder, method, seed, accuracies, **({"extra": COSTS} | given))


def write_evil_runs(folder):
    """Write runs with markup wherever a user can put text; return the title, with more of it."""
    path = write_run(
        folder / "<img src=x onerror=alert(1)>",
        "er",
        1,
        (0.5, 0.6),
        settings={"image_column": EVIL},
        env={"device": EVIL},
        data={"source": EVIL, EVIL: EVIL},
    )
    write_summary(path, json.loads((path / "summary.json").read_text()) | {"notes": [EVIL]})
    return EVIL


def page_of(folder, **given):
    return make_page(find_runs([folder]), **given).decode()


class Reader(HTMLParser):
    """Collects what a browser would see: elements with their attributes, tables, other text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.tables, self.words, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            return
        self.words.append(data)
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data.strip()

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def panels_of(page):
    return json.loads(re.search(r'id="panels">(.*?)</script>', page).group(1))
