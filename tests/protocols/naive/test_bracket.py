"""Binary search by batches, as arithmetic on counts."""

import pytest

from privquant.protocols.naive.bracket import Standing, batch_sizes, follow, follow_published, rounds_for

HONEST = 1000


def heard(true_answer: int, standing: Standing) -> tuple[int, int]:
    """What a crowd would say that knows the answer: all ones at or right of it, none left of it."""
    return (HONEST, HONEST if true_answer <= standing.ask else 0)


@pytest.mark.parametrize("answers", [2, 3, 4, 5, 6, 7, 8, 11, 100, 1000])
def test_every_answer_is_found_and_every_round_asks(answers):
    for wanted in {0, 1, answers // 3, answers // 2, answers - 2, answers - 1}:
        rounds = []
        for _ in range(rounds_for(answers)):
            standing = follow(answers, rounds, 0.5)
            assert standing.ask is not None, "a round without a question would waste its users"
            assert 0 <= standing.ask <= answers - 2
            rounds.append(heard(wanted, standing))
        assert follow(answers, rounds, 0.5).answer == wanted


def test_rounds_are_the_ceiling_of_the_logarithm():
    assert [rounds_for(k) for k in (1, 2, 3, 4, 5, 8, 9, 2**62 + 1, 2**63)] == [0, 1, 2, 2, 3, 3, 4, 63, 63]


def test_the_remainder_is_spread_from_the_first_batch():
    assert batch_sizes(23, 5) == (5, 5, 5, 4, 4)
    assert batch_sizes(3, 5) == (1, 1, 1, 0, 0)
    assert batch_sizes(7, 0) == ()


def test_a_spare_batch_asks_again_and_both_decide_together():
    # Three answers: the first round splits {0, 1} from {2}, and going right closes the bracket a round early.
    first = (10, 4)
    assert follow(3, [first], 0.5) == Standing(ask=1, answer=2)
    assert follow(3, [first, (10, 5)], 0.5).answer == 2
    assert follow(3, [first, (10, 6)], 0.5).answer == 1, "10 of 20 reach the target: the answer is left after all"


def test_a_round_nobody_answered_moves_nothing():
    assert follow(8, [(0, 0)], 0.5) == follow(8, [], 0.5)
    assert follow_published(8, [(0, 0)], 0.5) == follow_published(8, [], 0.5)


def test_noise_cannot_push_the_search_off_an_end():
    for bit in (0, HONEST):
        found = follow(64, [(HONEST, bit)] * 6, 0.5)
        assert found.answer == (0 if bit else 63)


def test_the_published_search_falls_off_the_left_end_onto_the_last_coin():
    assert follow_published(64, [(HONEST, HONEST)] * 6, 0.5) == Standing(ask=None, answer=63)
    assert follow_published(64, [(HONEST, 0)] * 6, 0.5).answer == 63


def test_the_published_search_keeps_the_last_coin_that_was_not_above_the_target():
    rates = [0.1, 0.2, 0.3, 0.45, 0.55, 0.7, 0.8, 1.0]
    rounds = []
    while (standing := follow_published(8, rounds, 0.5)).ask is not None and len(rounds) < 3:
        rounds.append((HONEST, int(HONEST * rates[standing.ask])))
    assert follow_published(8, rounds, 0.5).answer == 3
