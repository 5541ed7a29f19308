"""Lets PyPI's torchvision be imported beside a torch without CUDA; on the path of tests that need both.

Its compiled part asks for CUDA's libraries and is not loaded; importing it then fails over two operators that
are not there, although resizing images needs none of them. They are declared before the import.
"""

import importlib.abc
import sys
from typing import Any

_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class _Declaring(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            for name in ("nms", "qnms"):
                torch.library.define(f"torchvision::{name}", _SIGNATURE)


sys.meta_path.insert(0, _Declaring())
