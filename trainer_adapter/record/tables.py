"""The table of training runs: where each has its record. The run itself is a row of `runs`."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import BY_KEY_ALONE, Base
from service.runs import tables as _runs  # noqa: F401  (foreign keys)

TRAIN = "train"
"""The kind of a training run among `runs`."""


class TrainFolderRow(Base):
    """The folder that a training records its rollouts into."""

    __tablename__ = "train_folders"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    folder: Mapped[str]

    __table_args__ = (BY_KEY_ALONE,)
