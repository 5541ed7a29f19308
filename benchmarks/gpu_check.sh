#!/usr/bin/env bash
# Two training steps of three recipes and an evaluation on this machine's GPU: `make gpu-check`.
#
# It runs the sandbox's tiny policy in a temporary folder, and ends with 1 at the first command that fails or at a
# training that does not change the weights. PYTHON names the interpreter; CPU=1 runs the same on the CPU.
set -euo pipefail

python=$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)') # a relative name would not survive the cd
tagrpo=("$python" -m tagrpo)
sandbox=("$python" -m sandbox)
unset TAGRPO_DB
where=(--gpus 1 verl.actor_rollout_ref.rollout.gpu_memory_utilization=0.3)
sampler=vllm
if [ -n "${CPU:-}" ]; then
  where=(--cpu) sampler=local
fi
PYTHONPATH=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
folder=$(mktemp -d)
echo "gpu-check: works in $folder, which stays if it fails"
cd "$folder"

"${tagrpo[@]}" doctor --training
"${sandbox[@]}" policy policy
"${sandbox[@]}" questions world --train 32 --heldout 8
"${sandbox[@]}" candidates world --out candidates.jsonl --truth truth.jsonl --per-question 3 --broken 0
"${tagrpo[@]}" questions import world/train.jsonl --name train
"${tagrpo[@]}" rephrase run train --name true proposer=file proposer.candidates=candidates.jsonl --n 3
"${tagrpo[@]}" sets publish train --run true --include unverified --n 3
"${tagrpo[@]}" sets export train@1 --format verl --tokenizer policy --instruction "" --out data
for recipe in grpo ta_grpo ta_rescue; do
  "${tagrpo[@]}" train run "$recipe" --data data --model policy --name "$recipe" --hide-log "${where[@]}" responses=4 \
    verl.data.train_batch_size=16 verl.actor_rollout_ref.actor.ppo_mini_batch_size=16 \
    verl.data.max_response_length=40 verl.trainer.total_training_steps=2 verl.trainer.save_freq=2 \
    verl.actor_rollout_ref.rollout.agent.num_workers=1 verl.reward.num_workers=1
  "${tagrpo[@]}" train metrics "$recipe" --metric actor/grad_norm --metric tagrpo/engine/gap \
    --metric timing_s/step | tee metrics.txt
  awk 'NR > 1 && $3 > 0 {trained = 1} END {exit !trained}' metrics.txt || {
    echo "gpu-check: $recipe changed no weights" >&2
    exit 1
  }
done
"${tagrpo[@]}" train merge runs/ta_rescue/checkpoints/global_step_2 --out merged
"${tagrpo[@]}" eval run world/heldout.jsonl --model merged --preset plain temperature=1 top_p=1 --n 4 max_tokens=40 \
  sampler=$sampler
rm -rf "$folder"
echo "gpu-check: done"
