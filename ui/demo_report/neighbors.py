"""The report's first part: broken candidates rejected, good ones lost, and the published set."""

from typing import TYPE_CHECKING

from evaluator.reports.documents.document import Block, Picture, Table, Text, percent, span
from ui.demo_report.pictures import share_chart

if TYPE_CHECKING:
    from rephraser.sets.types import SetHeader
    from sandbox.scoring import Group, Score, Share


def blocks(score: "Score", header: "SetHeader") -> list[Block]:
    """Return this part of the report."""
    from sandbox.scoring import OUTCOMES

    kinds = [group for group in score.kinds if sum(group.outcomes.values())]
    used = [name for name in OUTCOMES if any(group.outcomes[name] for group in (score.broken, score.good))]
    kept = score.broken.kept_out
    through = kept.total - kept.count
    counts = header.counts
    return [
        Text(
            f"Of {kept.total:,} broken candidates, {_in_words(score.broken.rejected)} were rejected, and "
            f"{_in_words(kept)} were kept out of the set, because undecided candidates are not published "
            f"either. **{through:,} got through.** Of {score.good.rejected.total:,} good candidates, "
            f"{_in_words(score.good.rejected)} were rejected by mistake, and "
            f"{_in_words(score.good.kept_out)} kept out of the set. Brackets contain exact 95% intervals, "
            "assuming independent candidates."
        ),
        Picture(
            "caught",
            "Share of broken candidates rejected, by kind of error",
            share_chart(
                [
                    {
                        "label": group.name,
                        "share": group.rejected.share or 0.0,
                        "low": group.rejected.low,
                        "high": group.rejected.high,
                    }
                    for group in kinds
                    if group.rejected.total
                ],
                title="Broken candidates that were rejected",
                subtitle="By kind of error; bars: exact 95% interval",
                x_title="share rejected",
            ),
        ),
        Table(
            ("candidates", "number", *used),
            tuple(_row(group, used) for group in (*kinds, score.broken, score.good)),
        ),
        Text(
            f"Published as `{header.ref}`, with content hash `{header.content_hash[:16]}`: "
            f"{counts['questions']:,} questions with {counts['neighbors']:,} neighbors. Questions by number "
            f"of neighbors: {_sizes(counts['questions_by_neighbors'])}."
        ),
    ]


def _row(group: "Group", used: list[str]) -> tuple[str, ...]:
    counts = [group.outcomes[name] for name in used]
    return group.name, f"{sum(group.outcomes.values()):,}", *(f"{count:,}" for count in counts)


def _in_words(share: "Share") -> str:
    if share.share is None:
        return "none"
    return f"{share.count:,} ({percent(share.share)} {span(share.low, share.high)})"


def _sizes(by_size: dict[str, int]) -> str:
    return ", ".join(f"{count:,} with {size}" for size, count in by_size.items() if count)
