"""A small training that samples in stages: questions that are alive, revived, and never rescued."""

from pathlib import Path

from rollout_shards import make_record

from trainer_adapter.record import RolloutWriter

RECIPE = {"name": "ta_rescue", "sampling": "rescue", "anchor": "tapered"}
ALIVE, REVIVED, NEVER = range(3)


def write_rescues(folder: Path, steps: int = 2) -> Path:
    """Write a run of `steps` steps, 8 responses to each of three questions, 4 of them first.

    Question 0 has a right first response and draws only its own prompt. Of the others the second four go to
    neighbors 1 to 3: question 1 has one right response to neighbor 2 at each step, question 2 none.
    """
    with RolloutWriter(folder, "rescue", spec={"recipe": RECIPE}, versions={"tagrpo": "0"}) as writer:
        for step in range(1, steps + 1):
            records = []
            for question in (ALIVE, REVIVED, NEVER):
                for session in range(8):
                    variant = 0 if question == ALIVE or session < 4 else (1, 2, 3, 1)[session - 4]
                    right = (question, session) in ((ALIVE, 0), (REVIVED, 5))
                    records.append(
                        make_record(
                            step,
                            question,
                            session,
                            variant=variant,
                            neighbor_id=f"c_{question:023x}{variant}" if variant else None,
                            strategy=("paraphrase", "format", "rename")[variant - 1] if variant else None,
                            correct=right,
                            reward=float(right),
                            advantage=0.0 if question == NEVER else 2.0 if right else -0.5,
                            old_log_prob=-21.0 - (session - 4 if variant else 0),
                            sampling_log_prob=-21.0,
                        )
                    )
            writer.write(step, records)
    return folder
