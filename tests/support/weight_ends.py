"""Both ends of verl's way of weights to vLLM: `weight_ends.py PLACE NUMBER OTHER` sends and prints NUMBER.

Receives once the training OTHER has opened its socket as well.
"""

import asyncio
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from verl.workers.rollout.vllm_rollout import bucketed_weight_transfer as transfer


def exchange(place: Path, number: str, other: str) -> None:
    """Send a tensor of the number, and print what the receiver got."""
    device = SimpleNamespace(**dict.fromkeys(("synchronize", "empty_cache", "ipc_collect"), lambda: None))
    transfer.get_torch_device, transfer.is_support_ipc = lambda: device, lambda: False
    handle = f"ipc://{place}/job-01000000.sock"
    sender = transfer.BucketedWeightSender(handle, bucket_size_mb=1, use_shm=True)
    weights = iter([("weight", torch.full((8,), float(number)))])
    sending = threading.Thread(target=lambda: asyncio.run(sender.async_send_weights(weights)), daemon=True)
    sending.start()
    while not list(place.glob("job-*")):
        time.sleep(0.01)
    (place / number).touch()
    while not (place / other).exists():
        time.sleep(0.01)
    receiver = transfer.BucketedWeightReceiver(handle, torch.device("cpu"), use_shm=True)
    receiver.receive_weights(lambda weights, last: print(*weights[0][1].tolist(), flush=True))
    sending.join()


if __name__ == "__main__":
    exchange(Path(sys.argv[1]), *sys.argv[2:])
