"""What a person sees of a result: numbers, cards, tables, data frames and the page docs/results.md."""

import doctest
import math
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import privquant as pq
from privquant.errors import InvalidInput, PrivquantError
from privquant.messages import Guarantee

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
VALUES = np.random.default_rng(5).integers(0, 1000, 4000)
SETTINGS = {"epsilon": 2.0, "domain": (0, 1023), "rng": 1}
LOCAL = Guarantee("local", 1.0)
NONE_YET = pq.Estimate(None, 0.5, 0, LOCAL, "isotonic")


@pytest.fixture(scope="module")
def found():
    return pq.quantile(VALUES, [0.9, 0.5], **SETTINGS)


# -- one result ----------------------------------------------------------------------------------------------


def test_an_estimate_is_a_number_where_one_is_wanted(found):
    one = found[1]
    assert float(one) == one.value
    assert isinstance(float(one), float)
    assert f"{one:.0f} and {one:,.2f}" == f"{one.value:.0f} and {one.value:,.2f}"
    assert f"{one}" == str(one) == repr(one)
    assert float(pq.Estimate(math.inf, 0.5, 3, LOCAL, "naive", bin="(9, inf)")) == math.inf


@pytest.mark.parametrize("wrong", [float, "{:.0f}".format])
def test_no_answer_is_no_number(wrong):
    with pytest.raises(InvalidInput, match=r"no number in this estimate \(no answer yet\); .value is None"):
        wrong(NONE_YET)
    with pytest.raises(InvalidInput, match="all 3 users asked gave up"):
        wrong(replace(NONE_YET, notes=("all 3 users asked gave up",)))
    assert f"{NONE_YET}" == repr(NONE_YET)  # to be shown needs no number


def test_the_card_has_the_answer_its_ranges_users_and_privacy(found):
    one = found[1]
    shown = one._repr_html_()
    typical = f"{one.typical.low} .. {one.typical.high}"
    certain = f"{one.certain.low} .. {one.certain.high} to "
    for text in (f">{one.value}<", f">{typical}<", certain, "4,000 heard", str(one.guarantee)):
        assert text in shown
    naive = pq.median(VALUES, protocol="naive", **SETTINGS)._repr_html_()
    assert "of simulated runs" in naive
    assert ">typical<" not in naive


def test_a_card_is_escaped():
    rude = replace(NONE_YET, value=1, bin="<b>", protocol="<script>", notes=("a <i> & b",))
    shown = rude._repr_html_() + pq.Estimates([rude])._repr_html_()
    assert not any(tag in shown for tag in ("<script>", "<b>", "<i>"))
    assert "a &lt;i&gt; &amp; b" in shown


def test_an_open_end_is_said_where_the_range_is_shown():
    """At 4,000 users the slack of rank reaches past the 99th percentile: the range is no bound from above."""
    one = pq.quantile(VALUES, 0.99, **SETTINGS)
    assert one.quantile + one.certain.within >= 1.0
    for shown in (repr(one), one._repr_html_(), one.cells()[3]):
        assert "no upper bound on the quantile itself" in shown
        assert f"{one.certain.high} or less" in shown
    middle = pq.median(VALUES, **SETTINGS)
    assert "bound" not in repr(middle)


def test_too_few_users_are_said_to_say_nothing():
    one = pq.median(VALUES[:8], epsilon=0.5, domain=(0, 1023), rng=1)
    assert "these reports say next to nothing" in repr(one)
    assert one.cells()[3] == "says next to nothing"
    assert "nothing" not in repr(pq.median(VALUES, **SETTINGS))


def test_the_record_is_no_part_of_what_is_said(found):
    one = found[0]
    assert one.record is not None
    bare = replace(one, record=None)
    assert bare == one
    assert hash(bare) == hash(one)
    assert repr(bare) == repr(one)
    assert "record" not in one.to_dict()
    assert pickle.loads(pickle.dumps(one)).record == one.record


# -- several -------------------------------------------------------------------------------------------------


def test_several_are_a_list_that_prints_as_a_table(found):
    assert isinstance(found, list)
    assert isinstance(found, pq.Estimates)
    assert found == list(found)
    lines = repr(found).splitlines()
    assert lines[0].split() == ["quantile", "value", "typical", "certain", "users"]
    for line, one in zip(lines[1:3], found, strict=True):
        assert line.split()[:2] == [f"{one.quantile:g}", str(one.value)]
        assert line.split()[-1] == "4,000"
    assert len({len(line) for line in lines[:3]}) == 1  # columns stand under each other
    assert lines[3:] == [str(found[0].guarantee)]
    assert repr(pq.Estimates()) == "Estimates([])"


def test_a_part_of_several_is_several(found):
    assert type(found[:1]) is pq.Estimates
    assert found[:1] == [found[0]]
    assert type(found[0]) is pq.Estimate


def test_notes_and_promises_stand_once_below_the_table():
    noted = pq.quantile([*VALUES, None], [0.25, 0.75], missing="drop", **SETTINGS)
    assert repr(noted).count("1 values were missing and left out") == 1
    assert noted._repr_html_().count("1 values were missing and left out") == 1
    assert noted._repr_html_().count("<tr>") == 3


def test_data_frames(found):
    rows, pandas, polars = found.to_dicts(), found.to_pandas(), found.to_polars()
    assert list(pandas.columns) == polars.columns == list(rows[0])
    assert pandas["value"].tolist() == polars["value"].to_list() == [one.value for one in found]
    assert rows[0]["certain_low"] == found[0].certain.low
    assert rows[1]["typical_within"] == found[1].typical.within
    assert (rows[0]["trust"], rows[0]["epsilon"], rows[0]["users"]) == ("local", found[0].guarantee.epsilon, 4000)


def test_every_protocol_has_the_same_columns(found):
    naive = pq.quantile(VALUES, [0.25, 0.75], protocol="naive", **SETTINGS).to_dicts()
    assert list(naive[0]) == list(found.to_dicts()[0])
    assert naive[0]["certain_low"] is None
    assert naive[0]["rank_within"] > 0


def test_a_frame_with_an_unbounded_bin_and_a_missing_answer():
    mixed = pq.Estimates(
        [NONE_YET, replace(NONE_YET, value=50), replace(NONE_YET, value=math.inf, bin="(50, inf)")]
    )
    assert mixed.to_polars()["value"].to_list() == [None, 50.0, math.inf]
    assert mixed.to_pandas()["value"].tolist()[1:] == [50.0, math.inf]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there_is_named(found, library, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(PrivquantError, match=f"pip install {library}"):
        getattr(found, f"to_{library}")()


# -- the page ------------------------------------------------------------------------------------------------


def examples(page):
    return "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))


def failures(text):
    test = doctest.DocTestParser().get_doctest(text, {}, "results.md", None, 0)
    result = doctest.DocTestRunner(verbose=False).run(test, out=lambda _: None)
    return result.failed, result.attempted


def test_the_page_shows_what_comes_out(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    failed, attempted = failures(examples(PAGE.read_text()))
    assert attempted >= 6
    assert failed == 0


def test_a_page_that_shows_something_else_is_found_out():
    assert failures(examples("```python\n>>> 1 + 1\n3\n```\n")) == (1, 1)
