"""Parts of pages in a real browser: tables of very many rows, a notebook's cell; and the colours of charts."""

import pytest

import samebits
from needed_browser import open_browser
from samebits.cli.app import main
from samebits.display import charts
from samebits.questions.list.journal import write_table
from samebits.questions.list.row import Row


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.mark.parametrize("paper", ["#ffffff", "#16181c"])
def test_every_mark_of_a_chart_stands_out_from_the_page(paper):
    """At least 3:1 (WCAG 2.2, 1.4.11), computed as it is defined there."""

    def measure_luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colour in (charts.BLUE, charts.VERMILLION, charts.GREEN, charts.PURPLE, charts.GREY):
        high, low = sorted((measure_luminance(colour), measure_luminance(paper)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 3, colour


def test_a_whole_table_is_sorted_and_filtered(browser, tmp_path, capsys):
    """10^5 rows; what is shown is compared with what Python makes of the same rows."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    words = ("identical", "rounding", "downgrade", "wrong")
    rows = [
        Row(
            subject=f"layer {n % 977}",
            side=f"engine {n % 3}",
            verdict=words[n * 7 % 4],
            max_over_bound=float(n * 37 % 1009),
        )
        for n in range(100_000)
    ]
    write_table(tmp_path / "t.parquet", rows)
    assert main(["report", str(tmp_path / "t.parquet")]) == 0
    page = browser.new_page()
    page.goto((tmp_path / "t.html").as_uri())
    shown, count = page.locator(".grid tbody tr:not(.space)"), page.locator(".grid .count")
    assert count.inner_text() == "100,000 rows"
    assert shown.count() < 200
    took = page.evaluate(
        """() => { const field = document.querySelector('.grid input'); field.value = 'LAYER 97';
        const start = performance.now(); field.dispatchEvent(new Event('input')); document.body.offsetHeight;
        return performance.now() - start; }"""
    )
    kept = [row for row in rows if "layer 97" in row.subject]
    assert count.inner_text() == f"{len(kept):,} of 100,000 rows"
    page.get_by_role("button", name="error / bound").click()
    cells = shown.first.locator("td").all_inner_texts()
    assert float(cells[7]) == min(row.max_over_bound for row in kept)
    page.get_by_role("button", name="error / bound").click()
    cells = shown.first.locator("td").all_inner_texts()
    assert float(cells[7]) == max(row.max_over_bound for row in kept)
    page.evaluate("document.querySelector('.rows').scrollTop = 1e9")
    page.wait_for_function(f"document.querySelector('.grid tbody tr[aria-rowindex=\"{len(kept) + 1}\"]')")
    # A second on a busy machine; the page of measurements has what it takes on a quiet one.
    assert took < 1000
    page.close()


def test_a_notebook_shows_the_finding(browser, tmp_path):
    """A cell's output as notebooks put it into their own page: it runs nothing, and what is folded opens."""
    shown = samebits.compare("linear x=4x32 w=8x32", ["emulate:direct acc=float16", "truth"])._repr_html_()
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>notebook</title><p id=cell>cell</p>{shown}<p>next</p>", encoding="utf-8")
    page = browser.new_page()
    troubles = []
    page.on("console", lambda message: troubles.append(message.text))
    page.goto(path.as_uri())
    assert "downgrade" in page.locator("div.samebits b").first.inner_text().lower()
    assert page.locator("div.samebits table").first.is_visible()
    assert page.locator("details").count() > page.locator("details[open]").count() > 0
    assert not troubles
    page.close()
