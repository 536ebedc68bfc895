"""The report in a real browser: it loads, answers to mouse, finger and keyboard, and runs nothing foreign."""

import re
import shutil

import numpy as np
import pytest

from harmonicalign import AlignmentWarning, HarmonicAlignment
from harmonicalign.adapters.report import layout, write_report
from harmonicalign.datasets import load_digits_pair

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=2</script>",
    "javascript:window.hacked=3",
    "{{facts}} ${window.hacked=4}",
]

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on the path (chromium, chromium-browser or google-chrome)")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Reports of a pair, of a sample, of three datasets, of one dataset, and one with hostile names."""
    folder = tmp_path_factory.mktemp("reports")
    pair = load_digits_pair(preserved=0.5, n_x=160, n_y=140, random_state=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_LATE", 30)
        model = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
        ink = [pair.x.mean(axis=1), pair.y_clean.mean(axis=1)]
        labels = {"digit": [pair.labels_x, pair.labels_y], "ink": ink}
        write_report(
            model,
            folder / "pair.html",
            labels=labels,
            names=["first", "second"],
            feature_names=[f"pixel {i}" for i in range(64)],
        )
        write_report(model, folder / "sample.html", max_points=100)
        strange = {HOSTILE[1]: [np.full(160, HOSTILE[0]), np.full(140, HOSTILE[2])]}
        write_report(
            model,
            folder / "hostile.html",
            labels=strange,
            names=HOSTILE[:2],
            feature_names=[f"{HOSTILE[i % 5]} {i}" for i in range(64)],
            title=HOSTILE[2],
        )
        paper = HarmonicAlignment(method="paper", random_state=0)
        write_report(paper.fit({"a": pair.x, "b": pair.y, "c": pair.y_clean}), folder / "paper.html")
        with pytest.warns(AlignmentWarning, match="one dataset"):
            single = HarmonicAlignment(random_state=0).fit(pair.x)
        write_report(single, folder / "single.html")
    return folder


@pytest.fixture
def visit(browser, reports):
    """Open a report; afterwards nothing may have gone wrong in it, and nothing been asked of the network."""
    contexts, troubles, asked = [], [], []

    def go(name, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: (troubles.append("a dialog opened"), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        file = reports / f"{name}.html"
        asked.clear()
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        # By selector: the page's own policy forbids to evaluate text, which waiting for a function does.
        page.wait_for_selector("canvas.points:not([data-points])", state="detached")
        assert asked == [file.as_uri()]
        return page

    yield go
    assert troubles == []
    assert len(asked) == 1
    for context in contexts:
        context.close()


def drawn(page, panel=0):
    """Points shown in a panel, after it was drawn again."""
    settle(page)
    return int(page.locator("canvas.points").nth(panel).get_attribute("data-points"))


def picture(page, panel=0, kind="points"):
    settle(page)
    return page.locator(f"canvas.{kind}").nth(panel).evaluate("(canvas) => canvas.toDataURL()")


def settle(page):
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def colours(page, panel=0):
    """How many pixels have each colour."""
    settle(page)
    found = (
        page.locator("canvas.points")
        .nth(panel)
        .evaluate(
            """(canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const counts = {};
          for (let i = 0; i < data.length; i += 4) {
            const key = `${data[i]},${data[i + 1]},${data[i + 2]}`;
            counts[key] = (counts[key] || 0) + 1;
          }
          return counts;
        }"""
        )
    )
    return {tuple(map(int, key.split(","))): n for key, n in found.items()}


def middle_of(page, panel=1):
    """Where on the screen a pixel of a point is, nearest to the middle of a panel."""
    return (
        page.locator("canvas.points")
        .nth(panel)
        .evaluate(
            """(canvas) => {
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          const paper = data.slice(0, 3).join();
          let best = null;
          for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
            const i = 4 * (y * width + x);
            const far = Math.hypot(x - width / 2, y - height / 2);
            if (data.slice(i, i + 3).join() !== paper && (!best || far < best[2])) best = [x, y, far];
          }
          const box = canvas.getBoundingClientRect();
          return [box.left + (best[0] / width) * box.width, box.top + (best[1] / height) * box.height];
        }"""
        )
    )


BLUE, ORANGE = (0, 114, 178), (230, 159, 0)


@pytest.mark.parametrize(("name", "panels"), [("pair", 2), ("sample", 2), ("paper", 2), ("single", 1)])
def test_every_report_loads_quietly(visit, name, panels):
    page = visit(name)
    assert page.locator("canvas.points").count() == panels
    assert page.locator("#verdict .headline").inner_text()
    for link in page.locator("nav a").all():
        assert page.locator(link.get_attribute("href")).is_visible()


def test_the_finding_comes_first(visit):
    page = visit("pair")
    assert page.locator("main > section:visible").first.get_attribute("id") == "verdict"
    verdict = page.locator("#verdict").inner_text()
    assert verdict.startswith("✓\nAligned") or "Aligned" in verdict.splitlines()[:2]
    assert re.search(r"z\s=\s[\d.]+, p\s=\s", verdict)


def test_hostile_names_are_shown_and_do_nothing(visit):
    page = visit("hostile")
    for key in ("dataset", "column 0", "column 5"):
        page.select_option("#colour", key)
    page.mouse.move(*middle_of(page))
    page.locator("#feature-search").fill("script")
    settle(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("h1").inner_text() == HOSTILE[2]
    assert HOSTILE[0] in page.locator("#dataset-legend").inner_text()
    assert "<script>alert(1)</script> 0" in page.locator("#feature-table").inner_text()
    assert page.locator("img").count() == 0
    assert page.evaluate("document.scripts.length") == 3


def test_the_policy_stops_what_was_not_written_by_us(browser, reports):
    page = browser.new_page()
    page.goto((reports / "pair.html").as_uri())
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.hacked = true";
          document.body.append(script);
          document.body.insertAdjacentHTML("beforeend", '<img src="x" onerror="window.hacked = true">');
        }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None
    page.close()


def test_datasets_can_be_hidden(visit):
    page = visit("pair")
    assert drawn(page) == 300
    before = colours(page)
    assert before[BLUE] > 500
    assert before[ORANGE] > 500
    button = page.locator("#dataset-legend button", has_text="first")
    button.click()
    page.mouse.move(0, 0)
    assert button.get_attribute("aria-pressed") == "false"
    assert (drawn(page, 0), drawn(page, 1)) == (140, 140)
    assert BLUE not in colours(page)
    button.click()
    assert drawn(page) == 300


def test_labels_can_be_hidden_and_brought_back(visit):
    page = visit("pair")
    page.select_option("#colour", label="digit")
    legend = page.locator("#colour-legend")
    count = int(legend.locator("button", has_text="3").first.inner_text().split()[-1])
    legend.get_by_role("button", name="3", exact=False).first.click()
    assert drawn(page) == 300 - count
    legend.get_by_role("button", name="Hide all").click()
    assert drawn(page) == 0
    legend.get_by_role("button", name="Show all").click()
    assert drawn(page) == 300


def test_pointing_at_a_name_brings_its_points_forward(visit):
    page = visit("pair")
    page.locator("#dataset-legend button", has_text="second").hover()
    found = colours(page)
    assert BLUE not in found
    assert found[ORANGE] > 500
    page.mouse.move(0, 0)
    assert BLUE in colours(page)


def test_points_can_be_coloured_by_anything(visit):
    page = visit("pair")
    page.select_option("#colour", label="confidence")
    ramp = page.locator("#colour-legend .ramp").inner_text().split()
    assert ramp == ["0", "1"]
    page.select_option("#colour", label="ink")
    assert len(colours(page)) > 50
    page.locator("#colour-feature").fill("pixel 20")
    settle(page)
    assert page.locator("#colour option:checked").inner_text() == "pixel 20"
    assert "pixel 20" in page.locator("#colour-legend").inner_text()


def test_the_layout_can_be_changed(visit):
    page = visit("pair")
    before = picture(page)
    page.select_option("#layout", "components")
    assert picture(page) != before
    assert drawn(page) == 300


def test_pointing_at_a_point_tells_about_it(visit):
    page = visit("pair")
    page.locator("#panels").scroll_into_view_if_needed()
    unmarked = picture(page, 0, "marks")
    page.mouse.move(*middle_of(page))
    tip = page.locator(".panel .tip").nth(1)
    assert tip.is_visible()
    lines = tip.inner_text().splitlines()
    assert re.fullmatch(r"(first|second), row \d+", lines[0])
    assert [line.split(":")[0] for line in lines[1:]] == ["digit", "ink", "confidence"]
    # The same row is ringed in the other panel, without words.
    assert page.locator(".panel .tip").nth(0).is_hidden()
    assert picture(page, 0, "marks") != unmarked
    page.mouse.move(2, 2)
    assert tip.is_hidden()
    assert picture(page, 0, "marks") == unmarked


def test_what_the_tip_says_is_true(visit):
    page = visit("pair")
    pair = load_digits_pair(preserved=0.5, n_x=160, n_y=140, random_state=0)
    page.locator("#panels").scroll_into_view_if_needed()
    page.mouse.move(*middle_of(page))
    name, row, digit = re.match(
        r"(\w+), row (\d+)\s+digit: (\d)", page.locator(".panel .tip").nth(1).inner_text()
    ).groups()
    truth = pair.labels_x if name == "first" else pair.labels_y
    assert truth[int(row)] == int(digit)


def test_dragging_moves_and_buttons_zoom(visit):
    page = visit("pair")
    canvas = page.locator("canvas.points").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    start = picture(page)
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 140, steps=4)
    page.mouse.up()
    moved = picture(page)
    assert moved != start
    zoom = page.locator(".panel").first.locator(".zoom")
    zoom.get_by_role("button", name="Zoom in").click()
    assert picture(page) != moved
    zoom.get_by_role("button", name="Show everything").click()
    assert picture(page) == start


def test_the_wheel_scrolls_the_page_until_the_picture_is_clicked(visit):
    page = visit("pair")
    canvas = page.locator("canvas.points").first
    canvas.scroll_into_view_if_needed()
    start = picture(page)
    canvas.hover(position={"x": 50, "y": 50})
    page.mouse.wheel(0, 40)
    page.wait_for_timeout(150)
    assert picture(page) == start
    canvas.click(position={"x": 50, "y": 100})
    place = page.evaluate("scrollY")
    page.mouse.wheel(0, -100)
    page.wait_for_timeout(150)
    assert picture(page) != start
    assert page.evaluate("scrollY") == place


def test_everything_can_be_done_by_keyboard(visit):
    page = visit("pair")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.id || document.activeElement.className || 'other'")
        )
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"no focus to see on {reached[-1]}"
        if reached[-1] == "points":
            break
    assert reached[0] == "skip"
    assert {"theme", "colour", "layout", "size", "points"} <= set(reached)
    pictures = [picture(page)]
    for key in ("+", "ArrowLeft", "ArrowUp", "-"):
        page.keyboard.press(key)
        pictures.append(picture(page))
    assert len(set(pictures)) == 5
    assert re.match(r"(first|second), row \d+; digit: \d", page.locator("#live").text_content())
    assert page.locator(".panel .tip").first.is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".panel .tip").first.is_hidden()
    page.keyboard.press("0")
    assert picture(page) == pictures[0]


def test_legend_and_colours_by_keyboard(visit):
    page = visit("pair")
    page.locator("#dataset-legend button").first.focus()
    page.keyboard.press("Space")
    assert drawn(page) == 140
    page.locator("#colour").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#colour option:checked").inner_text() == "digit"


def rows_of_features(page):
    return page.locator("#feature-table tbody th").all_inner_texts()


def test_features_can_be_searched(visit):
    page = visit("pair")
    assert page.locator("#feature-count").inner_text() == "64 of 64 features"
    page.locator("#feature-search").fill("PIXEL 2")
    expected = {"pixel 2", *(f"pixel {i}" for i in range(20, 30))}
    assert set(rows_of_features(page)) == expected
    assert page.locator("#feature-count").inner_text() == "11 of 64 features"
    page.locator("#feature-search").fill("nothing like it")
    assert rows_of_features(page) == []
    page.locator("#feature-search").fill("")
    page.locator("#feature-only").check()
    assert set(page.locator("#feature-table tbody tr td:nth-child(5)").all_inner_texts()) == {"yes"}


def test_features_can_be_sorted(visit):
    page = visit("pair")
    while page.locator("#feature-more").is_visible():
        page.locator("#feature-more").click()

    def column(number):
        texts = page.locator(f"#feature-table tbody td:nth-child({number})").all_inner_texts()
        return [float(text.replace("−", "-")) for text in texts]

    scores = column(2)
    assert len(scores) == 64
    assert scores == sorted(scores, reverse=True)
    head = page.locator("#feature-table thead th")
    assert head.nth(1).get_attribute("aria-sort") == "descending"
    head.nth(1).locator("button").click()
    assert column(2) == sorted(column(2))
    assert head.nth(1).get_attribute("aria-sort") == "ascending"
    head.nth(0).locator("button").click()
    assert rows_of_features(page)[:3] == ["pixel 0", "pixel 1", "pixel 2"]
    assert head.nth(1).get_attribute("aria-sort") is None


def test_a_feature_of_the_table_colours_the_picture(visit):
    page = visit("pair")
    name = rows_of_features(page)[2]
    page.locator("#feature-table tbody tr").nth(2).get_by_role("button").click()
    assert page.locator("#colour option:checked").inner_text() == name


def test_matrices_tell_their_values(visit):
    page = visit("paper")
    assert page.locator("canvas.matrix").count() == 3
    matrix = page.locator("canvas.matrix").nth(2)
    matrix.scroll_into_view_if_needed()
    matrix.hover(position={"x": 5, "y": 5})
    tip = page.locator(".matrices .tip").nth(2).inner_text()
    assert "a, harmonic" in tip
    assert "b, harmonic" in tip
    page.select_option("#matrix-pair", label="b – c")
    matrix.hover(position={"x": 7, "y": 7})
    assert "c, harmonic" in page.locator(".matrices .tip").nth(2).inner_text()


def luminance(rgb):
    return (0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2]) / 255


def paper(page):
    return luminance(max((n, colour) for colour, n in colours(page).items())[1])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_system_and_the_button(visit, scheme):
    page = visit("pair", color_scheme=scheme)

    def ground():
        text = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return luminance([float(v) for v in re.findall(r"[\d.]+", text)[:3]])

    light = scheme == "light"
    assert (ground() > 0.8) is light
    assert (ground() < 0.2) is not light
    assert (paper(page) > 0.8) is light
    page.locator("#theme").click()
    assert (ground() > 0.8) is not light
    assert (paper(page) > 0.8) is not light
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert "automatic" in page.locator("#theme").inner_text()
    assert (ground() > 0.8) is light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(visit, scheme):
    """Contrast of text with its ground, by the formula and the limit of the WCAG."""
    page = visit("pair", color_scheme=scheme)
    ratios = page.evaluate(
        """() => {
          const parse = (text) => text.match(/[\\d.]+/g).map(Number);
          const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
          const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
          const out = [];
          const clear = (e) => parse(getComputedStyle(e).backgroundColor)[3] === 0;
          const kinds = "p, h1, h2, h3, li, td, th, button, dt, dd, label, a";
          for (const element of document.querySelectorAll(kinds)) {
            const silent = !element.innerText.trim() || element.querySelector(":disabled");
            if (!element.checkVisibility() || silent) continue;
            let ground = element;
            while (clear(ground)) ground = ground.parentElement;
            const a = light(parse(getComputedStyle(element).color));
            const b = light(parse(getComputedStyle(ground).backgroundColor));
            out.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.innerText.slice(0, 40)]);
          }
          return out;
        }"""
    )
    assert len(ratios) > 100
    assert [entry for entry in ratios if entry[0] < 4.5] == []


def test_a_phone_shows_it_without_scrolling_sideways(visit):
    page = visit("pair", **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = [canvas.bounding_box() for canvas in page.locator("canvas.points").all()]
    for box in boxes:
        assert box["x"] >= 0
        assert 250 < box["width"] <= 390
    assert boxes[1]["y"] > boxes[0]["y"] + boxes[0]["height"]
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, select")]
          .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 28)
          .map((e) => e.outerHTML)"""
    )
    assert small == []


def test_a_finger_finds_points(visit):
    page = visit("pair", **PHONE)
    page.locator("canvas.points").nth(1).scroll_into_view_if_needed()
    page.touchscreen.tap(*middle_of(page))
    assert re.match(r"(first|second), row \d+", page.locator(".panel .tip").nth(1).inner_text())


def test_a_sample_is_announced(visit):
    page = visit("sample")
    notice = page.locator("#sample-notice")
    assert notice.is_visible()
    assert re.search(r"A sample of (\d+) of 300 rows", notice.inner_text())
    assert drawn(page) <= 100
    assert visit("pair").locator("#sample-notice").is_hidden()


def test_without_scripts_the_finding_is_there(browser, reports):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((reports / "hostile.html").as_uri())
    # Inside noscript, markup counts only where scripts are off.
    assert "Aligned" in page.locator("main").inner_text()
    context.close()


def test_controls_have_names(visit):
    """Everything that can be reached has a name for those who do not see it."""
    page = visit("pair")
    nameless = page.evaluate(
        """() => {
          const kinds = "button, select, input, canvas[tabindex], [role=img], [role=region]";
          const label = (e) => e.closest("label")?.innerText.trim();
          const named = (e) => e.getAttribute("aria-label") || e.innerText?.trim() || label(e);
          return [...document.querySelectorAll(kinds)]
            .filter((e) => e.checkVisibility() && !named(e))
            .map((e) => e.outerHTML.slice(0, 120));
        }"""
    )
    assert nameless == []


def test_tables_are_sorted_by_keyboard(visit):
    page = visit("paper")
    table = page.locator("#tests table")
    heading = table.locator("thead button", has_text="z")
    heading.focus()
    page.keyboard.press("Enter")
    values = [float(t.replace("−", "-")) for t in table.locator("tbody td:nth-child(2)").all_inner_texts()]
    assert len(values) == 3
    assert values == sorted(values, reverse=True)
    assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")
    again = [float(t.replace("−", "-")) for t in table.locator("tbody td:nth-child(2)").all_inner_texts()]
    assert again == values[::-1]
    names = table.locator("tbody th").all_inner_texts()
    table.locator("thead button", has_text="Pair").press("Space")
    assert table.locator("tbody th").all_inner_texts() == sorted(names)
    assert table.locator("th[aria-sort]").count() == 1


def test_what_to_do_next_is_said(visit):
    page = visit("pair")
    assert page.locator("#verdict .next").inner_text().startswith("Next: ")
    assert visit("single").locator("#verdict .next").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_takes_few_pages_and_no_buttons(visit, scheme):
    page = visit("pair", color_scheme=scheme)
    before = picture(page)
    printed = page.pdf(format="A4", print_background=True)
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 5
    # Both pictures are on the paper, and the layers of names above them are transparent.
    assert len(re.findall(rb"/Subtype\s*/Image", printed)) >= 4
    assert b"/SMask" in printed
    assert picture(page) == before  # the screen is as it was
    page.emulate_media(media="print", color_scheme=scheme)
    for hidden in ("#nav", "#theme", ".controls", ".zoom", "#feature-more", ".on-screen"):
        assert not any(one.is_visible() for one in page.locator(hidden).all()), hidden
    legend, panels = page.locator("#dataset-legend").bounding_box(), page.locator("#panels").bounding_box()
    assert legend["x"] >= panels["x"] + panels["width"]  # beside the pictures
    assert page.locator("#feature-table tbody tr:visible").count() <= 15
