"""Images of questions: read and cleaned, stored once by content, referred to by id."""

from service.questions.images.image import MOST_BYTES as MOST_BYTES
from service.questions.images.image import PLACEHOLDER as PLACEHOLDER
from service.questions.images.image import Image as Image
from service.questions.images.image import ImageProblem as ImageProblem
from service.questions.images.image import data_address as data_address
from service.questions.images.image import parquet_cell as parquet_cell
from service.questions.images.image import place_images as place_images
from service.questions.images.image import read_image as read_image
from service.questions.images.rows import RowImages as RowImages
from service.questions.images.rows import order_numbered as order_numbered
from service.questions.images.store import LoadImages as LoadImages
from service.questions.images.store import image_loader as image_loader
from service.questions.images.store import image_problems as image_problems
from service.questions.images.store import load_images as load_images
from service.questions.images.store import store_images as store_images
