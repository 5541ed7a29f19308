"""Configs of a model that is asked, and of what a run may cost; see `service.config`."""

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator

from service.asks.redaction import key_variables, redact
from service.config import Config, operational

Dtype = Literal["float32", "bfloat16", "float16", "float64"]


class Access(Config):
    """Where a model is asked over the network, and how much at once."""

    endpoint: str | None = operational(None)
    """Profile [endpoint.NAME] that provides settings for this table."""
    base_url: tuple[str, ...] = operational(())
    """Server addresses (vLLM: http://HOST:8000/v1). Each request goes to one of them."""
    api_key_env: str | None = operational(None)
    """Environment variable with the API key; by default the provider's usual variable."""
    price: tuple[float, float] | None = operational(None)
    """USD per million prompt tokens and response tokens, for models without a litellm price."""
    max_concurrency: int | None = operational(None, ge=1, le=4096)
    """Maximum in-flight requests per server; by default 64, with vLLM 256 per model copy."""
    timeout_s: float | None = operational(None, gt=0)
    """Timeout per attempt in seconds; by default 120 plus max_tokens / tokens_per_s."""
    tokens_per_s: float = operational(10.0, ge=0.01)  # a server under load, a large model
    """Lowest expected speed in tokens per second; the default timeout depends on it."""
    batch: bool = operational(False)
    """Use batch jobs: half the price, but slower. Not available for hosted_vllm/."""
    batch_poll_s: float = operational(60.0, ge=0.01, description="Seconds between checks of a batch job.")

    @field_validator("base_url")
    @classmethod
    def _check_addresses(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        plain = tuple(address.strip().rstrip("/") for address in addresses)
        for address in plain:
            parts = urlsplit(address)
            if parts.username is not None:
                raise ValueError(
                    f"the address of {parts.hostname} contains a user name or password, which cannot be "
                    "combined with an API key. Remove it, or let your own proxy add it."
                )
            if parts.scheme not in ("http", "https"):
                host = redact(address.rpartition("@")[2])  # without a password
                raise ValueError(
                    f"{host} must start with http:// or https://, as in http://localhost:8000/v1."
                )
            if plain.count(address) > 1:
                raise ValueError(f"{address} appears twice. Give each server once.")
        return plain

    @field_validator("price")
    @classmethod
    def _check_price(cls, price: tuple[float, float] | None) -> tuple[float, float] | None:
        if price is not None and not all(0 <= each < math.inf for each in price):
            raise ValueError("give two finite numbers, 0 or more, such as [10,30].")
        return price

    @field_validator("api_key_env")
    @classmethod
    def _check_key_variable(cls, name: str | None) -> str | None:
        """Refuse a variable that is not set; its name may be a key itself, so no error repeats such a one."""
        if name is None:
            return None
        if os.environ.get(name):
            key_variables.add(name)
            return name
        if _VARIABLE.fullmatch(name) is None or name != redact(name):
            raise ValueError(
                "give the name of an environment variable; this looks like the key itself. Keep keys out of "
                "files and commands: run `export LAB_KEY=...` and give LAB_KEY."
            )
        raise ValueError(f"the variable {name} is not set. Run `export {name}=...` first.")


class Model(Access):
    """A model: asked over the network, or run on this machine."""

    leading: ClassVar[str] = "model"

    model: str
    """Model name as in litellm (gpt-4-turbo, hosted_vllm/Qwen/Qwen3-4B), or for a local model a checkpoint
    folder or Hub name."""
    sampler: Literal["auto", "remote", "vllm", "local"] = Field("auto", validate_default=True)
    """remote: an API or a server; local: transformers; vllm: vLLM on this machine's GPUs; auto: local if the
    model is a folder, otherwise remote."""
    revision: str | None = Field(None, description="local, vllm: model revision on the Hub.")
    dtype: Dtype | None = None
    """local, vllm: type of the weights; by default the checkpoint's."""
    device: str | None = Field(None, description="local: cpu, cuda, cuda:1, ...")
    tensor_parallel: int | None = Field(None, ge=1, description="vllm: number of GPUs per model copy.")
    max_model_len: int | None = Field(None, ge=2)
    """vllm: maximum tokens of prompt and response together."""
    gpus: int | None = operational(None, ge=1)
    """vllm: total number of GPUs, a multiple of tensor_parallel."""
    ray_address: str | None = operational(None)
    """vllm: use the GPUs of this Ray cluster: auto, or HOST:PORT."""
    gpu_memory_utilization: float | None = operational(None, gt=0, le=1)
    """vllm: fraction of GPU memory that vLLM uses; by default 0.9."""
    batch_size: int | None = operational(None, ge=1)
    """local: maximum responses generated at once."""

    @property
    def copies(self) -> int:
        """How many copies of the model vLLM runs."""
        shared = self.tensor_parallel or 1
        return (self.gpus or shared) // shared

    @property
    def has_batch_jobs(self) -> bool:
        """Whether requests go into batch jobs; the user's own vLLM servers have none."""
        return self.sampler == "remote" and self.batch and not self.model.startswith("hosted_vllm/")

    @field_validator("dtype", "device", mode="before")
    @classmethod
    def _read_auto(cls, name: object) -> object:
        """Read `auto`, which runs of earlier versions store, as the default."""
        return None if name == "auto" else name

    @field_validator("sampler")
    @classmethod
    def _choose_sampler(cls, sampler: str, info: ValidationInfo) -> str:
        """Choose once, so that a run goes on in the same way where its folder is gone."""
        if sampler != "auto":
            return sampler
        return "local" if Path(str(info.data.get("model"))).is_dir() else "remote"

    @model_validator(mode="after")
    def _check_engine(self) -> "Model":
        for name in dict.fromkeys(_LOCAL + _VLLM):
            if getattr(self, name) is not None and name not in ENGINE_SETTINGS[self.sampler]:
                raise ValueError(f"{name} does not apply to sampler={self.sampler}.")
        if self.base_url and self.sampler != "remote":
            raise ValueError(f"base_url is for remote models; {self.model} is a model on this machine.")
        if self.gpus is not None and self.gpus % (self.tensor_parallel or 1):
            raise ValueError(f"gpus={self.gpus} is not a multiple of tensor_parallel={self.tensor_parallel}.")
        return self


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_LOCAL = ("revision", "dtype", "device", "batch_size")
_VLLM = (
    *("revision", "dtype", "tensor_parallel", "max_model_len"),
    *("gpus", "ray_address", "gpu_memory_utilization"),
)
ENGINE_SETTINGS: Mapping[str, tuple[str, ...]] = {"remote": (), "local": _LOCAL, "vllm": _VLLM}
"""The settings of each kind of engine."""


class Budget(Config):
    """What a run may cost, and when it gives up."""

    max_usd: float | None = operational(None, ge=0, allow_inf_nan=False)
    """Hard cap in USD on the whole run, including in-flight requests. It also applies when the run is
    resumed."""
    max_requests: int | None = operational(None, ge=1, exclude=True)
    """Maximum HTTP requests in this invocation."""
    halt_after: int = operational(20, ge=1)
    """Stop after this many consecutive failed requests; answers received so far are kept."""
    stall_s: float = operational(300.0, ge=1)
    """Seconds without an answer before tagrpo warns which servers it is waiting for."""
    grace_s: float = operational(25.0, ge=0)
    """Seconds that tagrpo waits for in-flight requests after SIGTERM."""
    retry_final: bool = operational(False, exclude=True)
    """Retry requests that failed permanently: too long, blocked, or timed out twice."""
