"""Near-duplicates: found through MinHash, measured exactly, quick on thousands from one template."""

from service.questions.duplicates import NearIndex, compare_members
from service.questions.question import make_question
from service.questions.store import Member

LONG = "A farmer has seventeen sheep, and all but nine of them run away over the hill. How many remain?"


def members(*rows: tuple[str, str]) -> list[Member]:
    return [Member(position, make_question(text, answer)) for position, (text, answer) in enumerate(rows)]


def test_a_match_with_the_same_digits_goes_before_a_closer_one_with_others() -> None:
    index = NearIndex()
    index.nearest(make_question(LONG + " Give 3 facts.", "8"), 0)
    index.nearest(make_question(LONG.replace("farmer", "farmer's son") + " Give 2 facts.", "8"), 1)
    match = index.nearest(make_question(LONG + " Give 2 facts.", "8"))
    assert match is not None
    assert (match.key, match.same_digits) == (1, True)


def test_look_alikes_are_sorted_by_what_they_mean() -> None:
    question = "If $x+y=12$ and $x-y=6$, what is the value of $x$?"
    likeness = compare_members(
        members(
            (question, "9"),
            ("If  $x+y=12$ and $x - y = 6$, what is the value of $x$ ?", "9"),
            ("If $x+y=12$  and $x-y=6$, what is the value of $x$?", "8"),
            ("If $x+y=12$ and $x-y=6$, what is the value of $y$?", "3"),
            ("If $x+y=14$ and $x-y=6$, what is the value of $x$?", "10"),
            ("Name a prime number above one hundred.", "101"),
        ),
        lambda pairs: [first == second for first, second in pairs],
    )
    assert [(pair.row, pair.earlier) for pair in likeness["near_duplicates"]] == [(1, 0)]
    assert [(pair.row, pair.earlier) for pair in likeness["conflicts"]] == [(2, 0)]
    assert [pair.row for pair in likeness["look_alikes"]] == [3, 4]


def test_equal_texts_in_a_set_from_one_template_are_conflicts() -> None:
    names = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn")
    tail = "more. Each apple is washed, dried, weighed and put on a shelf of the shop. How many are there?"
    rows = [
        (f"{names[n % 6]} has {n % 17 + 2} apples and buys {n * 7 % 299} {tail}", "1") for n in range(280)
    ]
    rows += [(text.replace(" has ", "  has "), "2") for text, _ in rows[::14]]
    likeness = compare_members(members(*rows), lambda pairs: [first == second for first, second in pairs])
    assert [(pair.row, pair.earlier) for pair in likeness["conflicts"]] == [
        (280 + n, 14 * n) for n in range(20)
    ]
