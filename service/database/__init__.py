"""One database by path or URL: SQLAlchemy 2 over SQLite or PostgreSQL."""

from service.database.base import Base as Base
from service.database.base import add_counts as add_counts
from service.database.base import columns_of as columns_of
from service.database.base import find_by_id as find_by_id
from service.database.base import in_parts as in_parts
from service.database.base import upsert as upsert
from service.database.base import utc_now as utc_now
from service.database.engine import Database as Database
from service.database.place import Place as Place
from service.database.place import locate_database as locate_database
