"""What revision 0005 counts: for each table of counts the query that makes it, and the triggers that keep it.

The triggers run in the transaction that changes what is counted, so the counts are exact whoever writes, and
however many at once. Money is counted in whole picodollars (1e-12 USD): sums of whole numbers do not depend
on their order, so what is added and taken away again leaves nothing behind.
"""

from collections.abc import Mapping

PICO_PER_USD = 10**12

_USD = "CAST(ROUND(COALESCE({0}cost_usd, 0) * 1e12) AS INTEGER)"
STANDING = """
SELECT p.id, p.run_id, p.question_id, p.ordinal, p.candidate_id, p.proposer, p.strategy,
       p.strategy_hash, p.model, COALESCE(r.decision, v.status, 'pending'), v.id, r.id
FROM proposals AS p
LEFT JOIN verdicts AS v ON v.id = (
    SELECT MAX(id) FROM verdicts WHERE run_id = p.run_id AND candidate_id = p.candidate_id)
LEFT JOIN reviews AS r ON r.id = (SELECT MAX(id) FROM reviews WHERE candidate_id = p.candidate_id)
"""
_FINDING = """
SELECT json_extract(f.value, '$.name'), c.question_id, c.id, v.run_id
FROM verdicts AS v JOIN candidates AS c ON c.id = v.candidate_id, json_each(v.evidence, '$.findings') AS f
WHERE json_extract(f.value, '$.name') IS NOT NULL
"""

COUNTED: Mapping[str, str] = {
    "question_labels": """
        SELECT COALESCE(subject, ''), COALESCE(level, ''), COUNT(*) FROM questions GROUP BY 1, 2""",
    "question_set_counts": """
        SELECT set_id, COUNT(*), COUNT(held) FROM question_set_members GROUP BY 1""",
    "run_cell_counts": """
        SELECT n.run_id, c.kind, c.state, COUNT(*) FROM run_cells AS n JOIN cells AS c ON c.id = n.cell_id
        GROUP BY 1, 2, 3""",
    "run_spending": f"""
        SELECT paid_by, kind, COALESCE(model, '-'), SUM(attempts), COALESCE(SUM(prompt_tokens), 0),
               COALESCE(SUM(completion_tokens), 0), SUM({_USD.format("")}), SUM(cost_usd IS NULL)
        FROM cells WHERE attempts IS NOT NULL AND paid_by IS NOT NULL GROUP BY 1, 2, 3""",
    "run_minutes": f"""
        SELECT paid_by, substr(filled_at, 1, 16), SUM(state = 'filled'), SUM(state = 'failed'),
               COALESCE(SUM(completion_tokens), 0), SUM({_USD.format("")})
        FROM cells
        WHERE state IN ('filled', 'failed') AND paid_by IS NOT NULL AND filled_at IS NOT NULL
        GROUP BY 1, 2""",
    "sample_counts": """
        SELECT p.id, COUNT(s.id), COUNT(s.id) FILTER (WHERE s.stop_reason = 'length'),
               COUNT(s.id) FILTER (WHERE s.stop_reason IN ('content_filter', 'refusal')),
               COUNT(s.completion_tokens), COALESCE(SUM(s.completion_tokens), 0)
        FROM run_problems AS p LEFT JOIN samples AS s ON s.run_problem_id = p.id GROUP BY p.id""",
    "grade_counts": """
        SELECT run_problem_id, grader_id, SUM(value = 'correct'), SUM(value = 'wrong'), SUM(value = 'unknown')
        FROM grades GROUP BY 1, 2""",
    "standings": STANDING,
    "standing_counts": """
        SELECT run_id, proposer, strategy, strategy_hash, model, status, COUNT(*)
        FROM standings GROUP BY 1, 2, 3, 4, 5, 6""",
    "candidate_findings": f"SELECT DISTINCT * FROM ({_FINDING})",
    "train_metric_names": """
        SELECT DISTINCT s.run_id, m.key FROM train_steps AS s, json_each(s.metrics) AS m""",
    "rollout_groups": """
        SELECT s.run_id, s.step, p.question_id, COUNT(*), COUNT(DISTINCT p.variant),
               SUM(r.grade = 'correct'), SUM(r.grade = 'wrong'), SUM(r.grade = 'unknown'),
               SUM(p.variant = 0 AND r.grade = 'correct'), SUM(p.variant = 0 AND r.grade = 'wrong'),
               SUM(p.variant = 0 AND r.grade = 'unknown'),
               SUM(r.truncated), SUM(r.reason = 'timeout'), SUM(r.tokens), SUM(r.reward), MIN(r.reward),
               MAX(r.reward),
               CASE WHEN SUM(r.grade = 'correct') > 0 AND SUM(r.grade = 'wrong') > 0 THEN 'mixed'
                    WHEN SUM(r.grade = 'unknown') > 0 THEN 'unclear'
                    WHEN SUM(r.grade = 'correct') > 0 THEN 'all right' ELSE 'all wrong' END
        FROM rollout_shards AS s JOIN rollouts AS r ON r.shard_id = s.id
        JOIN rollout_prompts AS p ON p.id = r.prompt_id GROUP BY s.run_id, s.step, p.question_id""",
}
"""By table, in the order in which they are filled; `standing_counts` counts `standings`."""

_ENDED = "{0}.state IN ('filled', 'failed') AND {0}.paid_by IS NOT NULL AND {0}.filled_at IS NOT NULL"
_PAID = "{0}.attempts IS NOT NULL AND {0}.paid_by IS NOT NULL"

_CELLS = (
    """
    CREATE TRIGGER run_cells_counted AFTER INSERT ON run_cells BEGIN
        INSERT INTO run_cell_counts (run_id, kind, state, cells)
        SELECT NEW.run_id, kind, state, 1 FROM cells WHERE id = NEW.cell_id
        ON CONFLICT (run_id, kind, state) DO UPDATE SET cells = cells + 1;
    END""",
    """
    CREATE TRIGGER cells_counted AFTER UPDATE OF state ON cells WHEN OLD.state <> NEW.state BEGIN
        UPDATE run_cell_counts SET cells = cells - 1
        WHERE kind = OLD.kind AND state = OLD.state
              AND run_id IN (SELECT run_id FROM run_cells WHERE cell_id = OLD.id);
        INSERT INTO run_cell_counts (run_id, kind, state, cells)
        SELECT run_id, NEW.kind, NEW.state, 1 FROM run_cells WHERE cell_id = NEW.id
        ON CONFLICT (run_id, kind, state) DO UPDATE SET cells = cells + 1;
    END""",
    f"""
    CREATE TRIGGER cells_unspent AFTER UPDATE OF attempts, cost_usd, prompt_tokens, completion_tokens, model,
                                                 paid_by ON cells WHEN {_PAID.format("OLD")} BEGIN
        UPDATE run_spending SET
            requests = requests - OLD.attempts,
            prompt_tokens = prompt_tokens - COALESCE(OLD.prompt_tokens, 0),
            completion_tokens = completion_tokens - COALESCE(OLD.completion_tokens, 0),
            pico_usd = pico_usd - {_USD.format("OLD.")}, unpriced = unpriced - (OLD.cost_usd IS NULL)
        WHERE run_id = OLD.paid_by AND kind = OLD.kind AND model = COALESCE(OLD.model, '-');
    END""",
    f"""
    CREATE TRIGGER cells_spent AFTER UPDATE OF attempts, cost_usd, prompt_tokens, completion_tokens, model,
                                               paid_by ON cells WHEN {_PAID.format("NEW")} BEGIN
        INSERT INTO run_spending (run_id, kind, model, requests, prompt_tokens, completion_tokens, pico_usd,
                                  unpriced)
        VALUES (NEW.paid_by, NEW.kind, COALESCE(NEW.model, '-'), NEW.attempts, COALESCE(NEW.prompt_tokens, 0),
                COALESCE(NEW.completion_tokens, 0), {_USD.format("NEW.")}, NEW.cost_usd IS NULL)
        ON CONFLICT (run_id, kind, model) DO UPDATE SET
            requests = requests + excluded.requests, prompt_tokens = prompt_tokens + excluded.prompt_tokens,
            completion_tokens = completion_tokens + excluded.completion_tokens,
            pico_usd = pico_usd + excluded.pico_usd, unpriced = unpriced + excluded.unpriced;
    END""",
    f"""
    CREATE TRIGGER cells_minute_left AFTER UPDATE OF state, filled_at, cost_usd, completion_tokens, paid_by
    ON cells WHEN {_ENDED.format("OLD")} BEGIN
        UPDATE run_minutes SET
            filled = filled - (OLD.state = 'filled'), failed = failed - (OLD.state = 'failed'),
            completion_tokens = completion_tokens - COALESCE(OLD.completion_tokens, 0),
            pico_usd = pico_usd - {_USD.format("OLD.")}
        WHERE run_id = OLD.paid_by AND minute = substr(OLD.filled_at, 1, 16);
    END""",
    f"""
    CREATE TRIGGER cells_minute AFTER UPDATE OF state, filled_at, cost_usd, completion_tokens, paid_by
    ON cells WHEN {_ENDED.format("NEW")} BEGIN
        INSERT INTO run_minutes (run_id, minute, filled, failed, completion_tokens, pico_usd)
        VALUES (NEW.paid_by, substr(NEW.filled_at, 1, 16), NEW.state = 'filled', NEW.state = 'failed',
                COALESCE(NEW.completion_tokens, 0), {_USD.format("NEW.")})
        ON CONFLICT (run_id, minute) DO UPDATE SET
            filled = filled + excluded.filled, failed = failed + excluded.failed,
            completion_tokens = completion_tokens + excluded.completion_tokens,
            pico_usd = pico_usd + excluded.pico_usd;
    END""",
)

_SAMPLES = (
    """
    CREATE TRIGGER run_problems_counted AFTER INSERT ON run_problems BEGIN
        INSERT INTO sample_counts (run_problem_id, samples, truncated, refused, told, tokens)
        VALUES (NEW.id, 0, 0, 0, 0, 0);
    END""",
    """
    CREATE TRIGGER samples_counted AFTER INSERT ON samples BEGIN
        UPDATE sample_counts SET
            samples = samples + 1, truncated = truncated + (NEW.stop_reason = 'length'),
            refused = refused + (NEW.stop_reason IN ('content_filter', 'refusal')),
            told = told + (NEW.completion_tokens IS NOT NULL),
            tokens = tokens + COALESCE(NEW.completion_tokens, 0)
        WHERE run_problem_id = NEW.run_problem_id;
    END""",
    """
    CREATE TRIGGER grades_counted AFTER INSERT ON grades BEGIN
        INSERT INTO grade_counts (run_problem_id, grader_id, correct, wrong, unknown)
        VALUES (NEW.run_problem_id, NEW.grader_id, NEW.value = 'correct', NEW.value = 'wrong',
                NEW.value = 'unknown')
        ON CONFLICT (run_problem_id, grader_id) DO UPDATE SET
            correct = correct + excluded.correct, wrong = wrong + excluded.wrong,
            unknown = unknown + excluded.unknown;
    END""",
)

_ONE_MORE = """
        INSERT INTO standing_counts (run_id, proposer, strategy, strategy_hash, model, status, candidates)
        VALUES (NEW.run_id, NEW.proposer, NEW.strategy, NEW.strategy_hash, NEW.model, NEW.status, 1)
        ON CONFLICT (run_id, proposer, strategy, strategy_hash, model, status)
        DO UPDATE SET candidates = candidates + 1;""".strip()
_ONE_LESS = """
        UPDATE standing_counts SET candidates = candidates - 1
        WHERE run_id = OLD.run_id AND proposer = OLD.proposer AND strategy = OLD.strategy
              AND strategy_hash = OLD.strategy_hash AND model = OLD.model AND status = OLD.status;""".strip()

_STANDINGS = (
    f"""
    CREATE TRIGGER proposals_standing AFTER INSERT ON proposals BEGIN
        INSERT INTO standings (proposal_id, run_id, question_id, ordinal, candidate_id, proposer, strategy,
                               strategy_hash, model, status, verdict_id, review_id)
        {STANDING.strip()} WHERE p.id = NEW.id;
    END""",
    """
    CREATE TRIGGER proposals_standing_gone AFTER DELETE ON proposals BEGIN
        DELETE FROM standings WHERE proposal_id = OLD.id;
    END""",
    f"""
    CREATE TRIGGER verdicts_standing AFTER INSERT ON verdicts BEGIN
        UPDATE standings SET
            verdict_id = NEW.id, status = CASE WHEN review_id IS NULL THEN NEW.status ELSE status END
        WHERE candidate_id = NEW.candidate_id AND run_id = NEW.run_id
              AND (verdict_id IS NULL OR verdict_id < NEW.id);
        INSERT INTO candidate_findings (name, question_id, candidate_id, run_id)
        {_FINDING.strip()} AND v.id = NEW.id
        ON CONFLICT DO NOTHING;
    END""",
    """
    CREATE TRIGGER reviews_standing AFTER INSERT ON reviews BEGIN
        UPDATE standings SET review_id = NEW.id, status = NEW.decision
        WHERE candidate_id = NEW.candidate_id AND (review_id IS NULL OR review_id < NEW.id);
    END""",
    f"""
    CREATE TRIGGER standings_counted AFTER INSERT ON standings BEGIN
        {_ONE_MORE}
    END""",
    f"""
    CREATE TRIGGER standings_moved AFTER UPDATE OF status ON standings WHEN OLD.status <> NEW.status BEGIN
        {_ONE_LESS}
        {_ONE_MORE}
    END""",
    f"""
    CREATE TRIGGER standings_gone AFTER DELETE ON standings BEGIN
        {_ONE_LESS}
    END""",
)

_OTHERS = (
    """
    CREATE TRIGGER questions_counted AFTER INSERT ON questions BEGIN
        INSERT INTO question_labels (subject, level, questions)
        VALUES (COALESCE(NEW.subject, ''), COALESCE(NEW.level, ''), 1)
        ON CONFLICT (subject, level) DO UPDATE SET questions = questions + 1;
    END""",
    """
    CREATE TRIGGER question_set_members_counted AFTER INSERT ON question_set_members BEGIN
        INSERT INTO question_set_counts (set_id, members, held) VALUES (NEW.set_id, 1, NEW.held IS NOT NULL)
        ON CONFLICT (set_id) DO UPDATE SET members = members + 1, held = held + excluded.held;
    END""",
    *(
        f"""
    CREATE TRIGGER train_steps_named_{verb.lower()} AFTER {verb} ON train_steps BEGIN
        INSERT INTO train_metric_names (run_id, name)
        SELECT NEW.run_id, key FROM json_each(NEW.metrics) WHERE true ON CONFLICT DO NOTHING;
    END"""
        for verb in ("INSERT", "UPDATE")
    ),
)

TRIGGERS: tuple[str, ...] = (*_CELLS, *_SAMPLES, *_STANDINGS, *_OTHERS)
"""`rollout_groups` has none: rollouts come and go by whole steps, in one place (`rollouts.importing`)."""
