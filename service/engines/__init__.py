"""Run models on this machine: `vllm serve` as a child process, or a batch loop on transformers."""
