"""What the commands of `tagrpo eval` print of a run: settings, progress, pass@k, what stands beside it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from evaluator.evals.runs import EvalSpec, is_imported
from evaluator.reports.documents.document import hundredths
from evaluator.reports.standing import RunNumbers, read_numbers
from ui.cli import output
from ui.cli.output import plural
from ui.cli.requests import error_words, open_words, print_errors, print_ledger
from ui.cli.runs import Standing

if TYPE_CHECKING:
    from evaluator.evals.results import RunResult
    from evaluator.evals.running import EvalOutcome
    from service.database import Database
    from service.runs.progress import ErrorCount
    from service.runs.store import Run


def standing(database: "Database", run: "Run") -> Standing:
    """Return where a stored evaluation stands, for `runs show`."""
    numbers = read_numbers(database, run)
    problems = open_words(run.name, numbers.open_requests, numbers.failed_requests, numbers.errors)
    if numbers.lost:
        imported = is_imported(EvalSpec.from_json(run.spec))
        problems.append(lost_words(run.name, numbers.lost, imported=imported, errors=numbers.errors))
    return Standing(numbers.to_json(), partial(_print_run, run, numbers), "; ".join(problems))


def lost_words(name: str, lost: int, *, imported: bool = False, errors: "Sequence[ErrorCount]" = ()) -> str:
    """Say what is missing for good of a run, with the server's words, and the way out."""
    if imported:
        return (
            f"{name}: {plural(lost, 'sample')} without a response, since the tool that drew them got none; "
            "pass@k is given as a range from all wrong to all right"
        )
    from service.asks.request import FINAL, TIME_OUT

    words = error_words(errors, {*FINAL, TIME_OUT})
    return (
        f"{name}: {plural(lost, 'sample')} missing for good: too long, refused by a policy, or timed out "
        f"twice{f' ({words})' if words else ''}; pass@k is given as a range from all wrong to all right. "
        "Retry with retry_final=true"
    )


def _print_run(run: "Run", numbers: RunNumbers) -> None:
    _print_settings(run)
    print_numbers(numbers)
    print_ledger(numbers.ledger)


def print_numbers(numbers: RunNumbers) -> None:
    """Print a run's numbers: pass@k with both intervals, and what has to stand beside it."""
    each = (
        f"{numbers.fewest:,}" if numbers.fewest == numbers.most else f"{numbers.fewest:,} to {numbers.most:,}"
    )
    lacking = f", {plural(numbers.missing, 'sample')} missing" if numbers.missing else ""
    lacking += f" ({numbers.lost:,} for good)" if numbers.lost else ""
    size, problems = numbers.run.spec["size"], plural(numbers.problems, "problem")
    if numbers.questions < size:
        problems = f"{numbers.questions:,} of {plural(size, 'problem')}"
        if numbers.problems > numbers.questions:
            problems += f", {numbers.problems:,} with neighbors"
    output.heading(f"{numbers.run.name}: {problems}, {each} samples per problem{lacking}")
    if numbers.open_requests or numbers.failed_requests:
        output.say(f"requests: {numbers.open_requests:,} open, {numbers.failed_requests:,} failed")
    print_errors(numbers.errors)
    if numbers.result is None or numbers.curve is None:
        output.say(numbers.why or "pass@k needs at least one sample of each problem")
        return
    result, curve = numbers.result, numbers.curve
    unknown = bool(curve.unknown)
    output.table(
        ["k", "pass@k", "95%, new problems", "95%, same problems, new samples"],
        [
            [
                point.k,
                hundredths(point.value, 1) + (f" to {hundredths(point.value_high, 1)}" if unknown else ""),
                f"{hundredths(point.new_problems.low, 1)} to {hundredths(point.new_problems.high, 1)}",
                f"{hundredths(point.same_problems.low, 1)} to {hundredths(point.same_problems.high, 1)}",
            ]
            for point in curve.points
        ],
    )
    output.say(", ".join(_beside(result)))


def _percent(share: float | None) -> str:
    return "not recorded" if share is None else f"{hundredths(share, 1)}%"


def _beside(result: "RunResult") -> list[str]:
    tokens = result.mean_tokens
    remarks = [
        f"truncated {_percent(result.share(result.truncated))}",
        f"refused {_percent(result.share(result.refused))}",
        "tokens not recorded" if tokens is None else f"{tokens:,.0f} tokens per response",
        "price unknown" if result.usd is None else f"${result.usd:.4f}",
    ]
    if result.sources.shares:  # programs have none
        remarks.append(_where_found(result))
    if result.unknown:
        remarks.append(
            f"{plural(result.unknown, 'unknown grade')}: pass@k is given as a range from all of them wrong "
            "to all right"
        )
    if result.missing:
        remarks.append(
            f"{plural(result.missing, 'missing sample')}: pass@k is given as a range from all of them wrong "
            "to all right"
        )
    if result.human:
        remarks.append(human_words(result))
    if result.neighbors:
        remarks.append(f"pass@k of the originals; {plural(result.neighbors, 'neighbor')} also evaluated")
    return remarks


def human_words(result: "RunResult") -> str:
    """Say how many grades people gave, and whether they count."""
    counted = "counted" if result.grades == "human" else "not counted"
    count = plural(result.human, "human grade")
    return f"{count} {counted}, {result.overruled:,} different from the grader's"


def _where_found(result: "RunResult") -> str:
    from evaluator.grading.versions import answers_of

    shares = result.sources.shares or {}
    parts = [f"{place} {hundredths(share, 1)}%" for place, share in shares.items() if share]
    only = " (only boxed answers count)" if answers_of(result.grader_version) == "boxed" else ""
    return f"answers{only}: {', '.join(parts)}"


def outcome_json(outcome: "EvalOutcome") -> dict[str, Any]:
    """Return what an invocation did, for JSON."""
    return {
        "drawn": outcome.drawn,
        "graded": outcome.graded.samples,
        "stopped": outcome.stopped,
        "message": outcome.message,
        "failures": outcome.failures,
    }


def _print_settings(run: "Run") -> None:
    """Print what shaped the responses, and with which packages."""
    spec = run.spec
    sampling, prompt = spec["sampling"], spec["prompt"]
    output.say(f"{spec['problems']} ({_words(spec['source'])})")
    output.say(f"model {spec['model']} ({_words(spec['engine'])})")
    if "answers" in spec:
        output.say(f"answers {spec['answers']}: only boxed answers count")
    if "grader" in spec:
        output.say(f"graded by {spec['grader']} instead of the built-in rules")
    if is_imported(EvalSpec.from_json(spec)):
        output.say(
            "prompt and sampling are those of the tool that drew the responses, as far as it records them"
        )
    else:
        system = f", system {prompt['system']!r}" if prompt["system"] else ""
        arguments = _words(prompt["chat_template_kwargs"] or {})
        template = f", chat template with {arguments}" if arguments else ""
        output.say(_words(sampling))
        output.say(f"{prompt['form']} prompt: {prompt['template']!r}{system}{template}")
    output.say(_words(run.versions))
    output.say()


def _words(settings: Mapping[str, Any]) -> str:
    named = ((name.replace("_", " "), value) for name, value in settings.items() if value is not None)
    return ", ".join(f"{name} {value}" for name, value in named)
