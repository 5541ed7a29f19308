"""Images in the database: each stored once, loaded by id."""

from collections.abc import Callable, Iterable, Mapping

from sqlalchemy import LargeBinary, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.database import Database, in_parts, upsert, utc_now
from service.database.base import Base
from service.database.triggers import append_only
from service.errors import NotFoundError
from service.questions.images.image import Image, image_id


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


LoadImages = Callable[[Iterable[str]], Mapping[str, Image]]
"""Returns images by id, each once."""

_LOADED_AT_ONCE = 20


def store_images(session: Session, images: Iterable[Image]) -> int:
    """Insert the images that are not in the database yet; return how many were new."""
    new = 0
    for image in images:
        row = {"id": image.id, "media_type": image.media_type, "width": image.width, "height": image.height}
        row |= {"size": len(image.data), "data": image.data, "created_at": utc_now()}
        made = session.execute(upsert(ImageRow).values(row).on_conflict_do_nothing().returning(ImageRow.id))
        new += len(made.all())
    return new


def load_images(session: Session, ids: Iterable[str]) -> dict[str, Image]:
    """Return the images by id, each once."""
    wanted = list(dict.fromkeys(ids))
    images: dict[str, Image] = {}
    for part in in_parts(wanted, _LOADED_AT_ONCE):
        for row in session.scalars(select(ImageRow).where(ImageRow.id.in_(part))):
            images[row.id] = Image(row.data, row.media_type, row.width, row.height)
            session.expunge(row)
    if missing := sorted(set(wanted) - set(images)):
        raise NotFoundError(
            f"no image {missing[0]} in the database, which may be damaged. Run `tagrpo db check`."
        )
    return images


def image_loader(db: Database) -> LoadImages:
    """Return what loads images of a database, a few at a time as they are needed."""

    def load(ids: Iterable[str]) -> Mapping[str, Image]:
        with db.read() as session:
            return load_images(session, ids)

    return load


def image_problems(session: Session) -> list[str]:
    """Read all images and return what is wrong with those whose bytes do not give their id or size."""
    rows = session.execute(select(ImageRow.id, ImageRow.size, ImageRow.data).execution_options(yield_per=20))
    return [
        f"image {id}: its bytes do not match its id" if image_id(data) != id else f"image {id}: wrong size"
        for id, size, data in rows
        if image_id(data) != id or len(data) != size
    ]
