"""Published shares of zero-gradient questions, to stand beside a user's."""

from dataclasses import dataclass

SOURCE = "arXiv 2601.22478v5, section 5.2 and Figure 3: TA-GRPO on MATH train, G=8, N=3"


@dataclass(frozen=True)
class PublishedShares:
    """Shares in percent of questions whose G original responses get one reward, and by how much N*G lower it.

    `gap` is in points; the share of the N*G neighbor responses is `original - gap`.
    """

    model: str
    checkpoint: str
    original: float
    gap: float

    @property
    def neighbors(self) -> float:
        return round(self.original - self.gap, 1)


PUBLISHED_SHARES = (
    PublishedShares("Qwen3-1.7B", "base", 77.0, 18.6),
    PublishedShares("Qwen3-1.7B", "100%", 87.4, 14.0),
    PublishedShares("Qwen3-4B", "base", 85.6, 13.8),
    PublishedShares("Qwen3-4B", "100%", 93.2, 8.0),
)
