STUDY=study
export OMP_NUM_THREADS=1

# world-A
tagrpo sandbox policy $STUDY/world-A/policy --world A
tagrpo sandbox questions $STUDY/world-A/questions --world A
tagrpo sandbox candidates $STUDY/world-A/questions --out $STUDY/world-A/candidates.jsonl --per-question 3 --broken 0 --truth $STUDY/world-A/truth.jsonl
tagrpo questions import $STUDY/world-A/questions/train.jsonl --name study --db $STUDY/world-A/tagrpo.db
tagrpo neighbors propose study --name true --proposer file --candidates $STUDY/world-A/candidates.jsonl --n 3 --db $STUDY/world-A/tagrpo.db
tagrpo sets publish study --run true --include unverified --n 3 --db $STUDY/world-A/tagrpo.db
tagrpo sets export study@1 --out $STUDY/world-A/verl --format verl --tokenizer $STUDY/world-A/policy --instruction '' --max-prompt-tokens 64 --db $STUDY/world-A/tagrpo.db

# world-C
tagrpo sandbox policy $STUDY/world-C/policy --world C
tagrpo sandbox questions $STUDY/world-C/questions --world C
tagrpo sandbox candidates $STUDY/world-C/questions --out $STUDY/world-C/candidates.jsonl --per-question 3 --broken 0 --truth $STUDY/world-C/truth.jsonl
tagrpo questions import $STUDY/world-C/questions/train.jsonl --name study --db $STUDY/world-C/tagrpo.db
tagrpo neighbors propose study --name true --proposer file --candidates $STUDY/world-C/candidates.jsonl --n 3 --db $STUDY/world-C/tagrpo.db
tagrpo sets publish study --run true --include unverified --n 3 --db $STUDY/world-C/tagrpo.db
tagrpo sets export study@1 --out $STUDY/world-C/verl --format verl --tokenizer $STUDY/world-C/policy --instruction '' --max-prompt-tokens 64 --db $STUDY/world-C/tagrpo.db

# A-base-0-s0-0
tagrpo eval run $STUDY/world-A/questions/heldout.jsonl --name study --model $STUDY/world-A/policy --dtype float32 --n 64 --preset plain --temperature 1.0 --top-p 1.0 --max-tokens 40 --samples-per-request 32 --batch-size 256 --db $STUDY/cells/A-base-0-s0-0/eval-0.db

# A-grpo-0.0001-s101-120
tagrpo train run grpo --data $STUDY/world-A/verl --model $STUDY/world-A/policy --cpu --hide-log --name A-grpo-0.0001-s101-120 --folder $STUDY/cells/A-grpo-0.0001-s101-120/run --db $STUDY/cells/A-grpo-0.0001-s101-120/run.db loss.kl_coef=0 data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=8 actor_rollout_ref.actor.optim.lr=0.0001 actor_rollout_ref.actor.optim.lr_scheduler_type=constant actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 data.max_response_length=40 trainer.total_epochs=8 trainer.total_training_steps=120 trainer.save_freq=60 'actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]' data.seed=101 tagrpo_run.seed=101 tagrpo_run.poll_interval_s=0.1
tagrpo eval run $STUDY/world-A/questions/heldout.jsonl --name study --model $STUDY/cells/A-grpo-0.0001-s101-120/run/checkpoints/global_step_120/actor/huggingface --dtype float32 --n 64 --preset plain --temperature 1.0 --top-p 1.0 --max-tokens 40 --samples-per-request 32 --batch-size 256 --db $STUDY/cells/A-grpo-0.0001-s101-120/eval-120.db

# A-grpo-0.0002-s101-120
tagrpo train run grpo --data $STUDY/world-A/verl --model $STUDY/world-A/policy --cpu --hide-log --name A-grpo-0.0002-s101-120 --folder $STUDY/cells/A-grpo-0.0002-s101-120/run --db $STUDY/cells/A-grpo-0.0002-s101-120/run.db loss.kl_coef=0 data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=8 actor_rollout_ref.actor.optim.lr=0.0002 actor_rollout_ref.actor.optim.lr_scheduler_type=constant actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 data.max_response_length=40 trainer.total_epochs=8 trainer.total_training_steps=120 trainer.save_freq=60 'actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]' data.seed=101 tagrpo_run.seed=101 tagrpo_run.poll_interval_s=0.1
tagrpo eval run $STUDY/world-A/questions/heldout.jsonl --name study --model $STUDY/cells/A-grpo-0.0002-s101-120/run/checkpoints/global_step_120/actor/huggingface --dtype float32 --n 64 --preset plain --temperature 1.0 --top-p 1.0 --max-tokens 40 --samples-per-request 32 --batch-size 256 --db $STUDY/cells/A-grpo-0.0002-s101-120/eval-120.db

# A-grpo-0.0003-s101-120
tagrpo train run grpo --data $STUDY/world-A/verl --model $STUDY/world-A/policy --cpu --hide-log --name A-grpo-0.0003-s101-120 --folder $STUDY/cells/A-grpo-0.0003-s101-120/run --db $STUDY/cells/A-grpo-0.0003-s101-120/run.db loss.kl_coef=0 data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=8 actor_rollout_ref.actor.optim.lr=0.0003 actor_rollout_ref.actor.optim.lr_scheduler_type=constant actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 data.max_response_length=40 trainer.total_epochs=8 trainer.total_training_steps=120 trainer.save_freq=60 'actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]' data.seed=101 tagrpo_run.seed=101 tagrpo_run.poll_interval_s=0.1
tagrpo eval run $STUDY/world-A/questions/heldout.jsonl --name study --model $STUDY/cells/A-grpo-0.0003-s101-120/run/checkpoints/global_step_120/actor/huggingface --dtype float32 --n 64 --preset plain --temperature 1.0 --top-p 1.0 --max-tokens 40 --samples-per-request 32 --batch-size 256 --db $STUDY/cells/A-grpo-0.0003-s101-120/eval-120.db

# A-ta_rescue-0.0001-s101-120
tagrpo train run ta_rescue --data $STUDY/world-A/verl --model $STUDY/world-A/policy --cpu --hide-log --name A-ta_rescue-0.0001-s101-120 --folder $STUDY/cells/A-ta_rescue-0.0001-s101-120/run --db $STUDY/cells/A-ta_rescue-0.0001-s101-120/run.db loss.kl_coef=0 data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=8 actor_rollout_ref.actor.optim.lr=0.0001 actor_rollout_ref.actor.optim.lr_scheduler_type=constant actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 data.max_response_length=40 trainer.total_epochs=8 trainer.total_training_steps=120 trainer.save_freq=60 'actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]' data.seed=101 tagrpo_run.seed=101 tagrpo_run.poll_interval_s=0.1
tagrpo eval run $STUDY/world-A/questions/heldout.jsonl --name study --model $STUDY/cells/A-ta_rescue-0.0001-s101-120/run/checkpoints/global_step_120/actor/huggingface --dtype float32 --n 64 --preset plain --temperature 1.0 --top-p 1.0 --max-tokens 40 --samples-per-request 32 --batch-size 256 --db $STUDY/cells/A-ta_rescue-0.0001-s101-120/eval-120.db

# A-ta_rescue-0.0002-s101-120
tagrpo train run ta_rescue --data $STUDY/world-A/verl --model $STUDY/world-A/policy --cpu --hide-log --name A-ta_rescue-0.0002-s101-120 --folder $STUDY/cells/A-ta_rescue-0.0002-s101-120/run --db $STUDY/cells/A-ta_rescue-0.0002-s101-120/run.db loss.kl_coef=0 data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=8 actor_rollout_ref.actor.optim.lr=0.0002 actor_rollout_ref.actor.optim.lr_scheduler_type=constant actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 data.max_response_length=40 trainer.total_epochs=8 trainer.total_training_steps=120 trainer.save_freq=60 'actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]' data.seed=101 tagrpo_run.seed=101 tagrpo_run.poll_interval_s=0.1
tagrpo eval run $STUDY/world-A/questions/heldout.jsonl --name study --model $STUDY/cells/A-ta_rescue-0.0002-s101-120/run/checkpoints/global_step_120/actor/huggingface --dtype float32 --n 64 --preset plain --temperature 1.0 --top-p 1.0 --max-tokens 40 --samples-per-request 32 --batch-size 256 --db $STUDY/cells/A-ta_rescue-0.0002-s101-120/eval-120.db

# A-ta_rescue-0.0003-s101-120
tagrpo train run ta_rescue --data $STUDY/world-A/verl --model $STUDY/world-A/policy --cpu --hide-log --name A-ta_rescue-0.0003-s101-120 --folder $STUDY/cells/A-ta_rescue-0.0003-s101-120/run --db $STUDY/cells/A-ta_rescue-0.0003-s101-120/run.db loss.kl_coef=0 data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=8 actor_rollout_ref.actor.optim.lr=0.0003 actor_rollout_ref.actor.optim.lr_scheduler_type=constant actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 data.max_response_length=40 trainer.total_epochs=8 trainer.total_training_steps=120 trainer.save_freq=60 'actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]' data.seed=101 tagrpo_run.seed=101 tagrpo_run.poll_interval_s=0.1
tagrpo eval run $STUDY/world-A/questions/heldout.jsonl --name study --model $STUDY/cells/A-ta_rescue-0.0003-s101-120/run/checkpoints/global_step_120/actor/huggingface --dtype float32 --n 64 --preset plain --temperature 1.0 --top-p 1.0 --max-tokens 40 --samples-per-request 32 --batch-size 256 --db $STUDY/cells/A-ta_rescue-0.0003-s101-120/eval-120.db
