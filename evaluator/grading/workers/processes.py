"""Pebble's process pool with a different shutdown order."""

from pebble import ProcessPool


class Processes(ProcessPool):  # type: ignore[misc]
    """Stops its workers before it removes their locks.

    Pebble (5.2) removes the locks first, and a worker that was started just then, in the place of one that
    had done its share, dies of it with a traceback on the user's terminal.
    """

    def _stop_pool(self) -> None:
        if self._pool_manager_loop is not None:
            self._pool_manager_loop.join()  # starts no worker after it
            self._pool_manager.worker_manager.force_stop_workers()
        super()._stop_pool()
