"""The table of images."""

from sqlalchemy import LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import Base
from service.database.triggers import append_only


@append_only
class ImageRow(Base):
    """An image that questions and problems refer to, addressed by the hash of its bytes. Never updated."""

    __tablename__ = "images"
    id: Mapped[str] = mapped_column(primary_key=True)
    media_type: Mapped[str]  # image/png, image/jpeg or image/webp
    width: Mapped[int]
    height: Mapped[int]
    size: Mapped[int]  # bytes
    created_at: Mapped[str]
    data: Mapped[bytes] = mapped_column(LargeBinary)
