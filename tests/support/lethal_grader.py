"""A grader of one's own that kills the process of the grader that asks it, where a response wants that."""

import psutil


def grade(response: str, gold: str) -> bool:
    if "kill" in response:
        psutil.Process().parent().parent().kill()  # of a worker's fork server
    return response == gold
