"""What tests do on the page of the service: choose images, teach them, wait for what follows."""

from browsers import playwright
from served import picture

SECONDS = 30_000  # milliseconds; a busy machine may take that long
expect = playwright.expect
expect.set_options(timeout=SECONDS)


def pictures(kind, count=1, seed=0):
    """Return images of one colour as files that are chosen."""
    return [
        {
            "name": f"{kind}-{seed}-{number}.png",
            "mimeType": "image/png",
            "buffer": picture(kind, seed, number),
        }
        for number in range(count)
    ]


def show(page, files):
    """Choose files, and wait until their images are there."""
    before = page.locator("#tray .option").count()
    page.set_input_files("#files", files)
    expect(page.locator("#tray .option")).to_have_count(before + len(files))


def teach(page, label):
    page.fill("#label", label)
    page.press("#label", "Enter")


def taught(page, count):
    """Wait until so many of the images shown are taught."""
    expect(page.locator("#tray [data-kind=taught]")).to_have_count(count)


def learned(page, count):
    """Wait until so many images have been learned in all."""
    words = f"{count} image{'' if count == 1 else 's'}"
    expect(page.locator("#numbers dd").first).to_have_text(words)


def teach_two_classes(page, count=8):
    """Teach two classes, each all at once."""
    for kind in ("sky", "sand"):
        show(page, pictures(kind, count))
        page.get_by_role("button", name="Select all").click()
        teach(page, kind)
        taught(page, count)
        page.get_by_role("button", name="Put taught ones away").click()
    learned(page, 2 * count)
