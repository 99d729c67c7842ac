"""The trace of a campaign in memory: bounded, in order, computed from coarse to fine."""

from privquant.aggregator.operators.live import _MOST_POINTS, Trace, TracePoint


def test_marks_stay_in_order_and_what_is_known_of_one_stays_known():
    trace = Trace()
    for heard in (96, 32, 64):
        trace.add(TracePoint(heard, counts=b"counts"))
    trace.add(TracePoint(64, ranges=[[5, 4, 6]]))
    trace.add(TracePoint(64, counts=b"again"))
    assert [point.heard for point in trace.points] == [32, 64, 96]
    assert [point.ranges for point in trace.points] == [None, [[5, 4, 6]], None]
    assert trace.heard == 96


def test_a_way_is_bounded_and_keeps_its_ends():
    trace = Trace()
    for heard in range(1, 5000):
        trace.add(TracePoint(heard))
        assert len(trace.points) <= _MOST_POINTS
    assert (trace.points[0].heard, trace.points[-1].heard) == (1, 4999)


def test_what_is_missing_is_computed_from_coarse_to_fine():
    """After a few points no gap is much longer than it must be; the twin goes in order."""

    def longest_gaps(pick) -> list[int]:
        trace = Trace([TracePoint(heard) for heard in range(1, 65)])
        found = []
        while (point := pick(trace)) is not None:
            point.ranges = [[0, 0, 0]]
            known = [-1, *(k for k, each in enumerate(trace.points) if each.ranges is not None), 64]
            found.append(max(b - a for a, b in zip(known, known[1:], strict=False)))
        return found

    coarse = longest_gaps(Trace.next_missing)
    in_order = longest_gaps(lambda trace: next((point for point in trace.points if point.ranges is None), None))
    assert len(coarse) == len(in_order) == 64
    assert coarse[2] <= 17
    assert coarse[6] <= 9
    assert in_order[6] > 50
