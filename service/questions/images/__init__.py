"""Images of questions: read and cleaned, stored once by content, referred to by id."""

from service.questions.images.image import (
    MOST_BYTES,
    PLACEHOLDER,
    Image,
    ImageProblem,
    count_placeholders,
    data_address,
    parquet_cell,
    place_images,
    read_image,
    read_image_file,
    split_at_images,
)
from service.questions.images.rows import RowImages, order_numbered
from service.questions.images.store import (
    LoadImages,
    image_loader,
    image_problems,
    load_images,
    store_images,
)

__all__ = [
    "MOST_BYTES",
    "PLACEHOLDER",
    "Image",
    "ImageProblem",
    "LoadImages",
    "RowImages",
    "count_placeholders",
    "data_address",
    "image_loader",
    "image_problems",
    "load_images",
    "order_numbered",
    "parquet_cell",
    "place_images",
    "read_image",
    "read_image_file",
    "split_at_images",
    "store_images",
]
