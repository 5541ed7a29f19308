"""What revision 0010 counts: grades by where in the response the answer was found."""

EARLIER_NAMES = {
    "boxed": "box",
    "stated": "marker",
    "bare": "last sentence",
    "last formula": "last sentence",
    "last number": "last sentence",
    "last letter": "last sentence",
}
"""What grades stored before call the places. No grade is ever changed, so reading them translates."""

_CASES = " ".join(f"WHEN '{old}' THEN '{new}'" for old, new in EARLIER_NAMES.items())
_NOW = f"CASE source {_CASES} ELSE source END"

COUNT = f"""
SELECT run_problem_id, grader_id, COALESCE({_NOW}, ''), COUNT(*), SUM(value = 'correct')
FROM grades GROUP BY 1, 2, 3"""

TRIGGER = """
CREATE TRIGGER grades_sourced AFTER INSERT ON grades BEGIN
    INSERT INTO grade_sources (run_problem_id, grader_id, source, grades, correct)
    VALUES (NEW.run_problem_id, NEW.grader_id, COALESCE(NEW.source, ''), 1, NEW.value = 'correct')
    ON CONFLICT (run_problem_id, grader_id, source) DO UPDATE SET
        grades = grades + 1, correct = correct + excluded.correct;
END"""
