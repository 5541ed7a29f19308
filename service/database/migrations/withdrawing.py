"""What revision 0008 changes: decisions that were withdrawn do not count for where a candidate stands."""

from service.database.migrations.counting import STANDING

_NEWEST = "SELECT MAX(id) FROM reviews WHERE candidate_id = {0}"
_COUNTING = f"{_NEWEST} AND id NOT IN (SELECT review_id FROM review_withdrawals)"

STANDING_NOW = STANDING.replace(_NEWEST.format("p.candidate_id"), _COUNTING.format("p.candidate_id"))
"""Where each proposal stands, as the table `standings` holds it."""

CHANGED: tuple[str, ...] = (
    "DROP TRIGGER proposals_standing",
    f"""
    CREATE TRIGGER proposals_standing AFTER INSERT ON proposals BEGIN
        INSERT INTO standings (proposal_id, run_id, question_id, ordinal, candidate_id, proposer, strategy,
                               strategy_hash, model, status, verdict_id, review_id)
        {STANDING_NOW.strip()} WHERE p.id = NEW.id;
    END""",
    f"""
    CREATE TRIGGER reviews_withdrawn AFTER INSERT ON review_withdrawals BEGIN
        UPDATE standings SET review_id = ({_COUNTING.format("standings.candidate_id")})
        WHERE review_id = NEW.review_id;
        UPDATE standings SET status = COALESCE(
            (SELECT decision FROM reviews WHERE id = standings.review_id),
            (SELECT status FROM verdicts WHERE id = standings.verdict_id),
            'pending')
        WHERE candidate_id = (SELECT candidate_id FROM reviews WHERE id = NEW.review_id);
    END""",
)
