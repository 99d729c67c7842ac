"""The way of a campaign in memory: bounded, in order, computed from coarse to fine."""

from privquant.aggregator.operators.history import _MOST_POINTS, Mark, Way


def test_marks_stay_in_order_and_what_is_known_of_one_stays_known():
    way = Way()
    for heard in (96, 32, 64):
        way.add(Mark(heard, counts=b"counts"))
    way.add(Mark(64, ranges=[[5, 4, 6]]))
    way.add(Mark(64, counts=b"again"))
    assert [mark.heard for mark in way.marks] == [32, 64, 96]
    assert [mark.ranges for mark in way.marks] == [None, [[5, 4, 6]], None]
    assert way.heard == 96


def test_a_way_is_bounded_and_keeps_its_ends():
    way = Way()
    for heard in range(1, 5000):
        way.add(Mark(heard))
        assert len(way.marks) <= _MOST_POINTS
    assert (way.marks[0].heard, way.marks[-1].heard) == (1, 4999)


def test_what_is_missing_is_computed_from_coarse_to_fine():
    """After a few points no gap is much longer than it must be; the twin goes in order."""

    def longest_gaps(pick) -> list[int]:
        way = Way([Mark(heard) for heard in range(1, 65)])
        found = []
        while (mark := pick(way)) is not None:
            mark.ranges = [[0, 0, 0]]
            known = [-1, *(k for k, each in enumerate(way.marks) if each.ranges is not None), 64]
            found.append(max(b - a for a, b in zip(known, known[1:], strict=False)))
        return found

    coarse = longest_gaps(Way.next_missing)
    in_order = longest_gaps(lambda way: next((mark for mark in way.marks if mark.ranges is None), None))
    assert len(coarse) == len(in_order) == 64
    assert coarse[2] <= 17
    assert coarse[6] <= 9
    assert in_order[6] > 50
