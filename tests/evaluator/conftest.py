"""What tests of the evaluator share: a grader, whose worker takes seconds to start."""

import pytest

from evaluator.grading import Grader


@pytest.fixture(scope="session")
def grader():
    with Grader(workers=1, time_limit_s=10.0) as grader:
        yield grader
