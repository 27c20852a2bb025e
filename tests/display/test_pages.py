"""Pages in a real browser: opened, every interactive part used, looked at by an accessibility checker.

Findings of every kind, made by emulators, plain NumPy and the light engines: 1-D, 2-D, 3-D, 4,608 products, products, a
log, a network, two runs, a pick.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

import samebits
from injected_runners import CrashingRunner, InjectedRunner
from needed_browser import open_browser
from samebits.cli.app import main
from samebits.errors import FindingError
from samebits.findings import Comparison, Evidence, Fix, json_from_finding
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.questions.list.journal import write_table
from samebits.questions.list.list_running import run_list
from samebits.questions.list.row import Row
from samebits.questions.list.table_changes import compare_tables
from samebits.questions.report.any_finding import read_finding
from samebits.questions.report.rendering import render_markdown, render_page
from samebits.questions.runs.diff_schema import FirstDifference, RunDiff, SettingDifference
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
LARGEST = 3_000_000


def shift_columns(problem, result):
    return np.ascontiguousarray(np.roll(result, 1, axis=-1))


def explain_narrow_operands():
    problem = parse_problem_text("conv2d x=1x16x12x12 w=8x16x3x3 padding=1")
    operands = make_normal(problem, 5)
    recipes = {"cpu": "direct order=kh,kw,c", "gpu": "direct x=bfloat16 w=bfloat16 order=kh,kw,c"}
    results = {name: emulate(problem, parse_recipe(text), operands) for name, text in recipes.items()}
    return samebits.explain(Case(problem, operands, results))


def differ_in_runs():
    first = FirstDifference(
        operation="aten.convolution.default", what="convolution of (8, 3, 32, 32)", step=3, direction="forward",
        module="layers.0", line="train.py:12", process="0", kind="operation", index_a=41, index_b=41,
    )  # fmt: skip
    settings = [SettingDifference("OMP_NUM_THREADS", "2", "4", "export OMP_NUM_THREADS=2")] * 9
    return RunDiff(
        a="a.trace", b="b.trace", same=False, summary="They part in step 3.", first=first, settings=settings,
        compared=900, differing=500, only_a=0, only_b=1, samebits_version="0.1.0",
    )  # fmt: skip


def explain_hostile():
    found = explain_narrow_operands()
    sides = [msgspec.structs.replace(s, name=f"{HOSTILE}{i}", says=HOSTILE) for i, s in enumerate(found.sides)]
    return msgspec.structs.replace(found, sides=sides, summary=HOSTILE, data=HOSTILE)


SUBJECTS = {
    "1-D": ("conv1d x=1x4x90 w=2x4x3", ["emulate:direct", "emulate:direct order=pairs:k", "truth"]),
    "wrong": (
        "conv2d x=2x8x10x12 w=16x8x3x3 padding=1",
        [InjectedRunner("faulty", shift_columns), InjectedRunner("fault-free")],
    ),
    "3-D": ("conv3d x=1x4x6x7x8 w=3x4x3x3x3", ["emulate:direct x=tf32 w=tf32", "onnxruntime"]),
    "4,608 products": (
        "conv2d x=1x512x7x7 w=16x512x3x3 padding=1",
        ["emulate:direct order=c/16|kh,kw,c", "emulate:direct order=k/128|k"],
    ),
    "product": ("linear x=24x96 w=40x96", ["emulate:direct acc=float16", "numpy"]),
    "few outputs": ("examples/length7.npz", ["emulate:direct", "numpy"]),
    "crash": ("conv2d x=2x8x10x12 w=16x8x3x3", [CrashingRunner(), "truth"]),
    "network": ("examples/conv_clip.onnx", ["onnxruntime", "emulate:direct x=bfloat16 w=bfloat16"]),
}


def watch_a_fault():
    """A layer whose result others double behind it, under a guard."""
    torch = pytest.importorskip("torch")
    from samebits.torch import guard

    layer = torch.nn.Linear(64, 8)
    linear = torch.nn.functional.linear
    with pytest.MonkeyPatch.context() as patch, guard(layer, share=1.0) as watch:
        patch.setattr(torch.nn.functional, "linear", lambda *given: linear(*given) * 2)
        for _ in range(5):
            layer(torch.randn(16, 64))
    return watch.report()


def make_list():
    with tempfile.TemporaryDirectory() as folder:
        return run_list("catalog:corner/one-*", ["emulate:direct acc=float16"], table=f"{folder}/t.parquet")


def make_changes():
    with tempfile.TemporaryDirectory() as folder:
        tables = [Path(folder) / name for name in ("a.parquet", "b.parquet")]
        for table, verdict in zip(tables, ("rounding", "wrong"), strict=True):
            write_table(table, [Row(subject="one", side="truth", verdict=verdict, bits="0"), Row(subject=verdict)])
        return compare_tables(*tables)


MADE = {
    **{name: functools.partial(samebits.compare, *subject) for name, subject in SUBJECTS.items()},
    "recorded": explain_narrow_operands,
    "log": lambda: samebits.explain("examples/xla_mismatch.log"),
    "profile": lambda: samebits.profile("emulate:direct order=c,kw;kw|c where=ow(0*8,1*4)", "conv1d x=1x8x14 w=16x8x3"),
    "runs": differ_in_runs,
    "pick": lambda: samebits.pick("conv2d x=1x8x10x12 w=16x8x3x3", ["onnxruntime", "emulate:direct acc=float16"]),
    "hostile": explain_hostile,
    "sweep": lambda: samebits.sweep("linear x={1,2,5,40}x256 w=32x256", ["numpy", "onnxruntime"], recipes=False),
    "grid": lambda: samebits.sweep("linear x={1..6}x64 w={16,24}x64", ["onnxruntime"]),
    "guard": watch_a_fault,
    "list": make_list,
    "changes": make_changes,
    "reduction": lambda: samebits.reduce("conv1d x=1x2x17 w=3x2x5", "emulate:direct x=bfloat16"),
}


@pytest.fixture(scope="module")
def findings():
    """Each finding, made once and only if it is asked for."""
    kept = {}
    return lambda name: kept.setdefault(name, MADE[name]()) if name not in kept else kept[name]


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens a finding's page; `page.troubles` lists what the browser complained of."""
    opened = []

    def open_one(found, **options):
        path = tmp_path / "page.html"
        path.write_text(render_page(found), encoding="utf-8")
        context = browser.new_context(offline=True, **options)
        page = context.new_page()
        page.troubles = []
        page.on("console", lambda m: page.troubles.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on("request", lambda r: page.troubles.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
        started = time.perf_counter()
        page.goto(path.as_uri())
        page.opened_s = time.perf_counter() - started
        wait_for_charts(page)
        opened.append(context)
        return page

    yield open_one
    for context in opened:
        context.close()


def wait_for_charts(page):
    page.wait_for_function(
        "[...document.querySelectorAll('[data-chart]')].filter(c => c.offsetParent).every(c => c.dataset.done)"
    )


def open_all(page):
    """Opens what is folded, and waits for the charts in it."""
    page.evaluate("document.querySelectorAll('details.section').forEach(part => { part.open = true; })")
    page.wait_for_function("[...document.querySelectorAll('[data-chart]')].every(c => c.dataset.done)")


@pytest.mark.parametrize("name", MADE)
def test_every_finding_has_a_page_that_opens_without_complaint(findings, open_page, name):
    found = findings(name)
    page = open_page(found)
    assert page.troubles == []
    assert len(render_page(found).encode()) < LARGEST
    assert page.locator("h1").inner_text().split("\n")[0]
    assert "taken" not in page.title()
    open_all(page)
    for chart in page.locator("[data-chart]").all():
        assert chart.locator("svg path, svg rect").count() > 3
    if isinstance(found, Comparison) and name != "hostile":
        text = page.locator("body").inner_text()
        assert found.problem in text
        assert found.summary in re.sub(r"\s+", " ", text)
        assert all(side.name in text for side in found.sides)


# The colours of the marks of data and of legends, as they are drawn, over the page's: those below 3:1 (WCAG 1.4.11). A
# white edge around a mark separates it from the next one, and says nothing by itself.
FAINT_MARKS = """() => {
  const light = c => { const f = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(c[0]) + 0.7152 * f(c[1]) + 0.0722 * f(c[2]); };
  const read = text => (text.match(/rgba?\\(([^)]+)\\)/) ?? [, "0,0,0,0"])[1].split(",").map(Number);
  const ground = read(getComputedStyle(document.body).backgroundColor).slice(0, 3);
  const found = {};
  for (const mark of document.querySelectorAll(".role-mark path, .role-mark line, .role-legend-symbol path")) {
    // Cells of a map stand for numbers: only the scale next to them says which.
    if (mark.closest(".mark-rect") && mark.closest("svg").querySelector(".role-legend-gradient")) continue;
    const style = getComputedStyle(mark);
    const ratios = ["fill", "stroke"].map(part => {
      const [r, g, b, a = 1] = read(style[part]);
      if (style[part] === "none" || a === 0) return 0;
      const share = Number(style.opacity) * Number(style[`${part}Opacity`]);
      const shown = [r, g, b].map((v, i) => v * share + ground[i] * (1 - share));
      const [x, y] = [light(shown), light(ground)];
      return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    });
    const best = Math.max(...ratios);
    if (best < 3) found[`${style.fill} ${style.stroke} ${style.opacity}`] = best;
  }
  return found;
}"""


PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(
    "options", [{"color_scheme": "light"}, {"color_scheme": "dark", **PHONE}], ids=["desk", "phone"]
)
def test_whoever_reads_it_otherwise_misses_nothing(findings, open_page, name, options):
    """An accessibility checker, every mark's contrast, and a phone's width, in the dark."""
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(findings(name), **options)
    open_all(page)
    assert page.troubles == []
    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["impact"], v["nodes"][0]["html"][:120]) for v in found] == []
    assert page.evaluate(FAINT_MARKS) == {}
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("name", ["wrong", "network", "sweep"])
def test_contrast_is_measured_of_marks_that_are_there(findings, open_page, name):
    page = open_page(findings(name))
    assert page.locator(".role-mark path, .role-mark line").count() >= 2
    # A mark in a colour that is nearly the page's is found.
    mark = page.locator(".role-mark path").first
    mark.evaluate("e => { e.style.fill = e.style.stroke = 'rgb(250, 250, 250)'; e.style.opacity = 1; }")
    assert page.evaluate(FAINT_MARKS) != {}


def make_deep_network(units):
    """Convolutions, each with a sum and a relu behind it, one after the other."""
    import onnx

    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for i in range(units):
        w = (rng.standard_normal((4, 4, 3, 3)) / 6).astype(np.float32)
        weights.append(onnx.numpy_helper.from_array(w, f"w{i}"))
        nodes.append(onnx.helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], f"conv{i}", pads=[1, 1, 1, 1]))
        nodes.append(onnx.helper.make_node("Add", [f"c{i}", value], [f"a{i}"], f"add{i}"))
        nodes.append(onnx.helper.make_node("Relu", [f"a{i}"], [f"r{i}"], f"relu{i}"))
        value = f"r{i}"
    shape = [1, 4, 6, 6]
    given, made = (onnx.helper.make_tensor_value_info(v, onnx.TensorProto.FLOAT, shape) for v in ("x", value))
    graph = onnx.helper.make_graph(nodes, "deep", [given], [made], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.needs("onnxruntime")
def test_a_page_of_seven_hundred_operations_is_small_and_opens_at_once(open_page, tmp_path):
    import onnx

    onnx.save(make_deep_network(234), tmp_path / "deep.onnx")
    found = samebits.compare(tmp_path / "deep.onnx", ["onnxruntime", "emulate:direct x=bfloat16 w=bfloat16"])
    assert found.operations == 702
    assert len(render_page(found).encode()) < 1_500_000
    page, small = open_page(found), open_page(samebits.compare("linear x=2x3 w=4x3", ["numpy", "truth"]))
    assert page.troubles == []
    # Under a second on a machine with nothing else to do; here it is compared with the smallest page there is.
    assert page.opened_s < 1 + 4 * small.opened_s
    assert page.locator("details[id^='unit-']").count() >= 1


def test_every_interactive_part_does_what_it_says(findings, open_page):
    from playwright.sync_api import expect

    page = open_page(findings("4,608 products"), permissions=["clipboard-read", "clipboard-write"])
    open_all(page)
    drawing = page.locator("[data-zoom][data-by='1.25']").first
    pre = page.locator(f"#{drawing.get_attribute('data-zoom')}")
    before = pre.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
    drawing.click()
    assert pre.evaluate("e => parseFloat(getComputedStyle(e).fontSize)") > before
    page.locator("[data-zoom][data-by='0.8']").first.click()
    copy = page.locator("[data-copy^='code-again']").last
    copy.click()
    expect(copy).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator(f"#{copy.get_attribute('data-copy')}").inner_text()
    assert copied.startswith("samebits ")
    page.locator("[data-chart] svg .mark-rect path").last.hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "bound" in page.locator("#vg-tooltip-element").inner_text()
    page.select_option("#theme", "dark")
    wait_for_charts(page)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert page.troubles == []


def test_what_helps_and_where_it_was_measured_stand_first(findings, tmp_path, capsys):
    subject = ["compare", "linear x=4x40 w=8x40", "--on", "emulate:direct acc=float16", "--on", "numpy", "--json"]
    assert main(subject) == 1
    found = read_finding(capsys.readouterr().out.encode())
    assert found.made.command == "samebits compare 'linear x=4x40 w=8x40' --on 'emulate:direct acc=float16' --on numpy"
    fix = Fix("torch", "threads=1", "why", True, "rounding", text="torch:threads=1")
    fixed = msgspec.structs.replace(found, fixes=[fix])
    page = render_page(fixed)
    places = [page.index(part) for part in ("torch:threads=1", found.made.at[:10], "How far from the truth")]
    assert places == sorted(places)
    assert f"Measured {found.made.at[:10]}" in render_markdown(fixed)
    assert found.made.processor in page
    # What a person asked for is what a colleague can ask again, and no other command like it stands beside it.
    assert render_page(fixed).count("samebits compare") == 1


def test_a_click_on_a_unit_opens_what_is_known_of_it(findings, open_page):
    page = open_page(findings("network"))
    panel = page.locator("details[id^='unit-']").first
    assert not panel.evaluate("e => e.open")
    page.locator("[data-chart] svg .mark-symbol path").first.click()
    page.wait_for_function("document.querySelector(\"details[id^='unit-']\").open")
    assert "emulate" in panel.inner_text()
    assert page.troubles == []


def test_on_paper_nothing_is_folded(findings, open_page):
    page = open_page(findings("wrong"))
    closed = page.locator("details.section:not([open])")
    assert (before := closed.count()) > 0
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert closed.count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert closed.count() == before
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_long_tables_are_filtered_and_say_how_many_rows_are_left(findings, open_page):
    page = open_page(findings("runs"))
    field = page.locator("[data-table]").first
    rows = page.locator(f"#{field.get_attribute('data-table')} tbody tr")
    count = rows.count()
    field.fill("no row has this")
    assert rows.locator("visible=true").count() == 0
    assert page.locator(".count").first.inner_text() == f"0 of {count}"
    field.fill("")
    assert rows.locator("visible=true").count() == count


def test_everything_is_reached_by_the_keyboard(findings, open_page):
    page = open_page(findings("recorded"))
    open_all(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(200):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName + (document.activeElement.dataset.copy ?? '')"))
    for button in page.locator("[data-copy]").all():
        assert f"BUTTON{button.get_attribute('data-copy')}" in reached


class Balance(HTMLParser):
    """Elements that are opened and not closed."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "input", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_pages_and_markdown_without_a_browser(findings, name):
    found = findings(name)
    parser = Balance()
    parser.feed(render_page(found))
    assert parser.open == []
    text = render_markdown(found)
    assert text.startswith("**")
    assert not re.search(r"(?<!\\)<script", text)
    for line in text.splitlines():
        assert not line.startswith("| ") or line.endswith(" |")


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in MADE if n != "hostile"])
def test_a_finding_from_its_json_has_the_same_page(findings, name):
    text = json_from_finding(findings(name))
    assert render_markdown(read_finding(text.encode())) == render_markdown(findings(name))
    # What older versions wrote lacks what came later.
    older = json.loads(text)
    for side in older.get("sides", []):
        side.pop("picture", None)
        (side.get("error") or {}).pop("max_over_likely", None)
    assert "<h1>" in render_page(read_finding(json.dumps(older).encode()))


def test_the_command_writes_beside_the_findings_and_prints_markdown(findings, tmp_path, capsys):
    path = tmp_path / "found.json"
    path.write_text(json_from_finding(findings("recorded")))
    assert main(["report", str(path)]) == 0
    assert (tmp_path / "found.html").read_text().startswith("<!DOCTYPE html>")
    assert "wrote" in capsys.readouterr().err
    assert main(["report", str(path), "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("**DOWNGRADE**")
    assert main(["report", str(path), "--markdown", "-o", str(tmp_path / "x.md")]) == 0
    assert (tmp_path / "x.md").read_text().startswith("**DOWNGRADE**")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no finding as samebits writes it"),
        ("[]", "no finding as samebits writes it"),
        ('{"schema": "other/1"}', "is none that report knows"),
        ('{"schema": "samebits.comparison/1", "sides": 3}', "no finding as samebits writes it"),
        ("[" * 100_000, "no finding as samebits writes it"),
    ],
)
def test_what_is_no_finding_ends_with_one_line_and_status_2(text, says, tmp_path, capsys):
    path = tmp_path / "found.json"
    path.write_text(text)
    assert main(["report", str(path)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1
    assert main(["report", str(tmp_path / "none.json")]) == 2
    assert main(["report", str(tmp_path)]) == 2


@pytest.mark.parametrize("damage", [{"points": [[]]}, {"cells": []}, {"cells": [[1.0], []]}, {"cells": [[]]}])
def test_a_damaged_picture_ends_with_one_line_and_status_2(findings, damage, tmp_path, capsys):
    document = json.loads(json_from_finding(findings("recorded")))
    document["sides"][1]["picture"].update(damage)
    path = tmp_path / "found.json"
    path.write_text(json.dumps(document))
    assert main(["report", str(path)]) == 2
    said = capsys.readouterr().err
    # Said by the schema, or by whoever draws it.
    assert "picture" in said
    assert len(said.splitlines()) == 1


def test_a_folder_that_is_not_there_is_no_place_for_a_page(findings, tmp_path, capsys):
    path = tmp_path / "found.json"
    path.write_text(json_from_finding(findings("runs")))
    assert main(["report", str(path), "-o", str(tmp_path / "no" / "page.html")]) == 2
    assert "could not be written" in capsys.readouterr().err


def test_a_finding_of_another_kind_has_no_page():
    with pytest.raises(FindingError, match="has no page"):
        render_page(
            samebits.take_inventory() if hasattr(samebits, "take_inventory") else msgspec.defstruct("X", ["a"])(1)
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_findings_in_python_are_short_and_come_back(findings, name, tmp_path):
    found = findings(name)
    assert str(found) == repr(found)
    assert 0 < len(str(found)) < 4000
    assert "\x1b" not in str(found)
    shown = found._repr_html_()
    assert len(shown) < 60_000
    assert "<script" not in shown
    parser = Balance()
    parser.feed(shown)
    assert parser.open == []
    found.save(tmp_path / "found.json")
    assert json_from_finding(samebits.load(tmp_path / "found.json")) == json_from_finding(found)
    assert found.to_dict() == json.loads(json_from_finding(found))
    found.save(tmp_path / "found.md")
    # What was made in Python is stamped as it is written.
    written = (tmp_path / "found.md").read_text().splitlines()
    rest = [line for line in written if not line.startswith("Measured ")]
    plain = [line for line in render_markdown(found).splitlines() if not line.startswith("Measured ")]
    assert [line for line in rest if line] == [line for line in plain if line]
    assert any(line.startswith("Measured ") for line in written) == hasattr(found, "made")
    found.save(tmp_path / "found.html")
    page = (tmp_path / "found.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert ("<dt>Measured</dt>" in page) == hasattr(found, "made")


def test_without_the_packages_of_pages_a_notebook_still_shows_the_finding(monkeypatch):
    found = samebits.compare("linear x=2x3 w=2x3", ["truth", "truth"])
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "IDENTICAL" in found._repr_html_()
    with pytest.raises(FindingError, match="pip install"):
        found.save("found.html")


# Texts that would be markup, HTML, a link, a mention or a table if they were not text.
HOSTILE_TEXTS = (
    "a ``<img src=x onerror=alert(1)>`` b", "`", "``", "```<b>```", "x`<i>`", "<script>alert(1)</script>", "a | b",
    "``a|<img src=x>``", "<details><summary>x</summary>", "[x](javascript:alert(1))", "![x](http://x/y.png)",
    "see http://evil.com/x", "www.evil.com", "a@b.com", "HTTPS://EVIL.com", "mailto:a@b.com", "\\<https://evil.com\\>",
    "\\`<b>\\`",
    "\n\n# heading\n\n<img src=x>", "a\n\n| b | c |\n|---|---|\n| <u> | d |", "1. one", "- one", "&lt;img src=x&gt;",
    "_a_ *b* ~~c~~",
    "    code", "> quote", "$x$", "a\n===", "<!-- x", "<?php", "```\n````\n<b>\n", "\r\n<hr>\r\n",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_texts_stay_texts_in_markdown(findings, text):
    """A parser of its own (CommonMark, with HTML and tables as GitHub has them) sees no HTML but ours."""
    markdown_it = pytest.importorskip("markdown_it")
    found = findings("hostile")
    side = msgspec.structs.replace(found.sides[0], name=text, says=text, where=text, version=text)
    changed = msgspec.structs.replace(
        found, summary=text, sides=[side, *found.sides[1:]], evidence=[Evidence("structure", text)]
    )
    # With addresses as links, as GitHub has them too.
    pytest.importorskip("linkify_it")
    parser = markdown_it.MarkdownIt("gfm-like", {"html": True})
    html, seen = [], []

    def collect(tokens):
        for token in tokens:
            if token.type in ("html_block", "html_inline"):
                html.append(token.content.strip())
            if token.type in ("text", "code_inline", "fence", "code_block"):
                seen.append(token.content)
            assert token.type not in ("link_open", "image", "hr")
            collect(token.children or [])

    collect(parser.parse(render_markdown(changed)))
    assert all(re.fullmatch(r"<details><summary>[\w ,]+</summary>|</details>", part) for part in html), html
    # Nothing is lost; what a terminal might obey is shown as what it is.
    if text.isprintable():
        assert re.sub(r"\s", "", text) in re.sub(r"[\s\u2060]", "", "".join(seen))
