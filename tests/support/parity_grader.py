"""A grader of the user's own, by rule: the parity of a response's characters."""


def grade(response: str, gold: str) -> bool:
    return sum(map(ord, response)) % 2 == 1
