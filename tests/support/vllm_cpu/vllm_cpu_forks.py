"""A plug-in of vLLM for its CPU build, whose engines start a process of its own for one worker.

It would be a new Python, so that OpenMP reads its number of threads anew, and import vLLM for 15 seconds.
Tests have one thread, and so the engine's process forks it. The engine's own process stays a new Python.
"""

import multiprocessing
import os


def fork_workers() -> None:
    """Let an engine's process fork what it starts; vLLM calls this in each process."""
    from vllm import envs, plugins

    if multiprocessing.parent_process() is None:
        return  # no engine's process
    envs.environment_variables["VLLM_WORKER_MULTIPROC_METHOD"] = lambda: "fork"
    # A fork is to load the plug-ins as a new Python would.
    os.register_at_fork(after_in_child=lambda: setattr(plugins, "plugins_loaded", False))
