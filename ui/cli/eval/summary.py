"""What the commands of `tagrpo eval` print of a run: settings, progress, pass@k and its caveats."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evaluator.evals.results import read_numbers
from evaluator.evals.runs import EvalSpec, is_imported
from evaluator.grading.versions import answers_of
from evaluator.reports.documents.document import hundredths
from ui.cli.output import Heading, Part, Table, plural
from ui.cli.records import record_parts
from ui.cli.requests import error_words, open_words

if TYPE_CHECKING:
    from evaluator.evals.results import RunResult
    from service.database import Database
    from service.runs.store import Run


def standing(database: "Database", run: "Run") -> tuple[Mapping[str, Any], str]:
    """Return the state of a stored evaluation and what needs attention, for `runs show`."""
    record, _ = read_numbers(database, run)
    errors = record["errors"]
    problems = open_words(run.name, record["open_requests"], record["failed_requests"], errors)
    imported = is_imported(EvalSpec.model_validate(run.spec))
    if lost := record["missing_for_good"]:
        problems.append(lost_words(run.name, lost, imported=imported, errors=errors))
    if imported:  # their prompt and sampling are not known
        spec = {name: value for name, value in run.spec.items() if name not in ("prompt", "sampling")}
        record = {**record, "spec": spec}
    return record, "; ".join(problems)


def lost_words(name: str, lost: int, *, imported: bool = False, errors: Mapping[str, int] = {}) -> str:
    """Say what is missing for good of a run, with the server's words, and the way out."""
    if imported:
        return (
            f"{name}: {plural(lost, 'sample')} without a response, because the other tool received none; "
            "pass@k is given as a range from all wrong to all right"
        )
    from service.asks.request import FINAL, TIME_OUT

    words = error_words(errors, {*FINAL, TIME_OUT})
    return (
        f"{name}: {plural(lost, 'sample')} permanently missing: too long, refused, or timed out "
        f"twice{f' ({words})' if words else ''}; pass@k is given as a range from all wrong to all right. "
        "Retry with retry_final=true"
    )


def numbers_parts(record: Mapping[str, Any], result: "RunResult | None") -> list[Part]:
    """Return a run's numbers: pass@k with both intervals, and what qualifies it."""
    fewest, most, missing = record["fewest_samples"], record["most_samples"], record["missing"]
    each = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    lacking = f", {plural(missing, 'sample')} missing" if missing else ""
    lacking += f" ({record['missing_for_good']:,} permanently)" if record["missing_for_good"] else ""
    size, questions, problems = (record[name] for name in ("benchmark_problems", "originals", "problems"))
    words = plural(problems, "problem")
    if questions < size:
        words = f"{questions:,} of {plural(size, 'problem')}"
        words += f", {problems:,} including neighbors" if problems > questions else ""
    waiting, failed = record["open_requests"], record["failed_requests"]
    parts: list[Part] = [
        Heading(f"{record['run']}: {words}, {each} samples per problem{lacking}"),
        f"requests: {waiting:,} open, {failed:,} failed" if waiting or failed else None,
        *record_parts({"failed requests": [{"error": e, "count": n} for e, n in record["errors"].items()]}),
    ]
    if result is None or record["pass_at_k"] is None:
        return [*parts, record["why"] or "pass@k needs at least one sample of each problem"]
    unknown = bool(result.counts.unknown.any())
    rows = [
        [
            point["k"],
            hundredths(point["value"], 1) + (f" to {hundredths(point['value_high'], 1)}" if unknown else ""),
            *(
                " to ".join(hundredths(end, 1) for end in point[interval])
                for interval in ("new_problems", "same_problems")
            ),
        ]
        for point in record["pass_at_k"]
    ]
    columns = ["k", "pass@k", "95%, new problems", "95%, same problems, new samples"]
    return [*parts, Table(columns, rows), ", ".join(_remarks(result))]


def _remarks(result: "RunResult") -> list[str]:
    def percent(count: int | None) -> str:
        share = result.share(count)
        return "not recorded" if share is None else f"{hundredths(share, 1)}%"

    tokens, shares = result.mean_tokens, result.sources.shares
    remarks = [
        f"truncated {percent(result.truncated)}",
        f"refused {percent(result.refused)}",
        "tokens not recorded" if tokens is None else f"{tokens:,.0f} tokens per response",
        "price unknown" if result.usd is None else f"${result.usd:.4f}",
    ]
    if shares:  # programs have none
        only = " (only boxed answers count)" if answers_of(result.grader_version) == "boxed" else ""
        places = ", ".join(f"{place} {hundredths(share, 1)}%" for place, share in shares.items() if share)
        remarks.append(f"answers{only}: {places}")
    for count, noun in ((result.unknown, "unknown grade"), (result.missing, "missing sample")):
        if count:
            remarks.append(
                f"{plural(count, noun)}: pass@k is given as a range from all of them wrong to all right"
            )
    if result.human:
        counts = "counted" if result.grades == "human" else "not counted"
        human = plural(result.human, "human grade")
        remarks.append(f"{human} {counts}, {result.overruled:,} different from the grader's")
    if result.neighbors:
        remarks.append(f"pass@k of the originals; {plural(result.neighbors, 'neighbor')} also evaluated")
    return remarks
