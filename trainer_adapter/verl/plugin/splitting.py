"""Which prompt a response is drawn for, and with which seed."""

import hashlib


def prompt_of(session: int, prompts: int, rollouts: int) -> int:
    """Return the prompt of a question's response: 0 for the question, k for its k-th neighbor.

    The `rollouts` responses of a question are split evenly over its prompts, and the question takes what does
    not divide: with 32 responses, four prompts have 8 each, three have 12, 10 and 10. So a question with
    fewer neighbors costs the same.

    Args:
        session: the response's number, from 0.
        prompts: the question's own and its neighbors'.
        rollouts: (N + 1) G.

    Raises:
        ValueError: no prompt, or a session beyond the last response.
    """
    if prompts < 1:
        raise ValueError(f"{prompts} prompts; a question has one at least")
    if not 0 <= session < rollouts:
        raise ValueError(f"session {session} of {rollouts} responses")
    share, rest = divmod(rollouts, prompts)
    return 0 if session < share + rest else 1 + (session - share - rest) // share


def seed_of(base: int, step: int, question_id: str, draw: int, session: int) -> int:
    """Return the sampler's seed of a response, 31 bits; the same in every run with the same `base`.

    Args:
        step: the global step.
        draw: how often the question was drawn before in this step; a small training set comes round again.
        session: the response's number among those of the question.
    """
    text = "\0".join(map(str, (base, step, question_id, draw, session)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") >> 1
