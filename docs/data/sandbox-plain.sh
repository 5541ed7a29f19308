STUDY=study
export OMP_NUM_THREADS=1

# A-augment-0.0002-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A augment --rate 0.0002 --seed 1 --points 120 --out $STUDY/plain/cells/A-augment-0.0002-s1-120/rows.json

# A-augment-0.0002-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A augment --rate 0.0002 --seed 2 --points 120 --out $STUDY/plain/cells/A-augment-0.0002-s2-120/rows.json

# A-augment-0.0002-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A augment --rate 0.0002 --seed 3 --points 120 --out $STUDY/plain/cells/A-augment-0.0002-s3-120/rows.json

# A-augment-0.0002-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A augment --rate 0.0002 --seed 4 --points 120 --out $STUDY/plain/cells/A-augment-0.0002-s4-120/rows.json

# A-augment-0.0002-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A augment --rate 0.0002 --seed 5 --points 120 --out $STUDY/plain/cells/A-augment-0.0002-s5-120/rows.json

# A-base-0-s0-0
python -m benchmarks.studies.sandbox_plain $STUDY/world-A base --rate 0 --seed 0 --points 0 --out $STUDY/plain/cells/A-base-0-s0-0/rows.json

# A-grpo-0.0002-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 1 --points 120 --out $STUDY/plain/cells/A-grpo-0.0002-s1-120/rows.json

# A-grpo-0.0002-s1-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 1 --points 240 --out $STUDY/plain/cells/A-grpo-0.0002-s1-240/rows.json

# A-grpo-0.0002-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 2 --points 120 --out $STUDY/plain/cells/A-grpo-0.0002-s2-120/rows.json

# A-grpo-0.0002-s2-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 2 --points 240 --out $STUDY/plain/cells/A-grpo-0.0002-s2-240/rows.json

# A-grpo-0.0002-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 3 --points 120 --out $STUDY/plain/cells/A-grpo-0.0002-s3-120/rows.json

# A-grpo-0.0002-s3-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 3 --points 240 --out $STUDY/plain/cells/A-grpo-0.0002-s3-240/rows.json

# A-grpo-0.0002-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 4 --points 120 --out $STUDY/plain/cells/A-grpo-0.0002-s4-120/rows.json

# A-grpo-0.0002-s4-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 4 --points 240 --out $STUDY/plain/cells/A-grpo-0.0002-s4-240/rows.json

# A-grpo-0.0002-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 5 --points 120 --out $STUDY/plain/cells/A-grpo-0.0002-s5-120/rows.json

# A-grpo-0.0002-s5-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo --rate 0.0002 --seed 5 --points 240 --out $STUDY/plain/cells/A-grpo-0.0002-s5-240/rows.json

# A-grpo_kl-0.0002-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo_kl --rate 0.0002 --seed 1 --points 120 --out $STUDY/plain/cells/A-grpo_kl-0.0002-s1-120/rows.json

# A-grpo_kl-0.0002-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo_kl --rate 0.0002 --seed 2 --points 120 --out $STUDY/plain/cells/A-grpo_kl-0.0002-s2-120/rows.json

# A-grpo_kl-0.0002-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo_kl --rate 0.0002 --seed 3 --points 120 --out $STUDY/plain/cells/A-grpo_kl-0.0002-s3-120/rows.json

# A-grpo_kl-0.0002-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo_kl --rate 0.0002 --seed 4 --points 120 --out $STUDY/plain/cells/A-grpo_kl-0.0002-s4-120/rows.json

# A-grpo_kl-0.0002-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A grpo_kl --rate 0.0002 --seed 5 --points 120 --out $STUDY/plain/cells/A-grpo_kl-0.0002-s5-120/rows.json

# A-max_rl-0.0002-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A max_rl --rate 0.0002 --seed 1 --points 120 --out $STUDY/plain/cells/A-max_rl-0.0002-s1-120/rows.json

# A-max_rl-0.0002-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A max_rl --rate 0.0002 --seed 2 --points 120 --out $STUDY/plain/cells/A-max_rl-0.0002-s2-120/rows.json

# A-max_rl-0.0002-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A max_rl --rate 0.0002 --seed 3 --points 120 --out $STUDY/plain/cells/A-max_rl-0.0002-s3-120/rows.json

# A-max_rl-0.0002-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A max_rl --rate 0.0002 --seed 4 --points 120 --out $STUDY/plain/cells/A-max_rl-0.0002-s4-120/rows.json

# A-max_rl-0.0002-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A max_rl --rate 0.0002 --seed 5 --points 120 --out $STUDY/plain/cells/A-max_rl-0.0002-s5-120/rows.json

# A-rescue_broken-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_broken --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-rescue_broken-0.0001-s1-120/rows.json

# A-rescue_broken-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_broken --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-rescue_broken-0.0001-s2-120/rows.json

# A-rescue_broken-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_broken --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-rescue_broken-0.0001-s3-120/rows.json

# A-rescue_broken-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_broken --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-rescue_broken-0.0001-s4-120/rows.json

# A-rescue_broken-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_broken --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-rescue_broken-0.0001-s5-120/rows.json

# A-rescue_dropped-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_dropped --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-rescue_dropped-0.0001-s1-120/rows.json

# A-rescue_dropped-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_dropped --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-rescue_dropped-0.0001-s2-120/rows.json

# A-rescue_dropped-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_dropped --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-rescue_dropped-0.0001-s3-120/rows.json

# A-rescue_dropped-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_dropped --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-rescue_dropped-0.0001-s4-120/rows.json

# A-rescue_dropped-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_dropped --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-rescue_dropped-0.0001-s5-120/rows.json

# A-rescue_kl-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_kl --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-rescue_kl-0.0001-s1-120/rows.json

# A-rescue_kl-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_kl --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-rescue_kl-0.0001-s2-120/rows.json

# A-rescue_kl-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_kl --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-rescue_kl-0.0001-s3-120/rows.json

# A-rescue_kl-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_kl --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-rescue_kl-0.0001-s4-120/rows.json

# A-rescue_kl-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_kl --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-rescue_kl-0.0001-s5-120/rows.json

# A-rescue_own-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_own --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-rescue_own-0.0001-s1-120/rows.json

# A-rescue_own-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_own --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-rescue_own-0.0001-s2-120/rows.json

# A-rescue_own-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_own --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-rescue_own-0.0001-s3-120/rows.json

# A-rescue_own-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_own --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-rescue_own-0.0001-s4-120/rows.json

# A-rescue_own-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_own --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-rescue_own-0.0001-s5-120/rows.json

# A-rescue_untapered-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_untapered --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-rescue_untapered-0.0001-s1-120/rows.json

# A-rescue_untapered-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_untapered --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-rescue_untapered-0.0001-s2-120/rows.json

# A-rescue_untapered-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_untapered --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-rescue_untapered-0.0001-s3-120/rows.json

# A-rescue_untapered-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_untapered --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-rescue_untapered-0.0001-s4-120/rows.json

# A-rescue_untapered-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A rescue_untapered --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-rescue_untapered-0.0001-s5-120/rows.json

# A-ta_grpo_2-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0001-s1-120/rows.json

# A-ta_grpo_2-0.0001-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0001 --seed 101 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0001-s101-120/rows.json

# A-ta_grpo_2-0.0001-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0001 --seed 102 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0001-s102-120/rows.json

# A-ta_grpo_2-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0001-s2-120/rows.json

# A-ta_grpo_2-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0001-s3-120/rows.json

# A-ta_grpo_2-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0001-s4-120/rows.json

# A-ta_grpo_2-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0001-s5-120/rows.json

# A-ta_grpo_2-0.0002-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0002 --seed 101 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0002-s101-120/rows.json

# A-ta_grpo_2-0.0002-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0002 --seed 102 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0002-s102-120/rows.json

# A-ta_grpo_2-0.0003-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0003 --seed 101 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0003-s101-120/rows.json

# A-ta_grpo_2-0.0003-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2 --rate 0.0003 --seed 102 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2-0.0003-s102-120/rows.json

# A-ta_grpo_2_broken-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2_broken --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2_broken-0.0001-s1-120/rows.json

# A-ta_grpo_2_broken-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2_broken --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2_broken-0.0001-s2-120/rows.json

# A-ta_grpo_2_broken-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2_broken --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2_broken-0.0001-s3-120/rows.json

# A-ta_grpo_2_broken-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2_broken --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2_broken-0.0001-s4-120/rows.json

# A-ta_grpo_2_broken-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_2_broken --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-ta_grpo_2_broken-0.0001-s5-120/rows.json

# A-ta_grpo_tapered-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0001-s1-120/rows.json

# A-ta_grpo_tapered-0.0001-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0001 --seed 101 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0001-s101-120/rows.json

# A-ta_grpo_tapered-0.0001-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0001 --seed 102 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0001-s102-120/rows.json

# A-ta_grpo_tapered-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0001-s2-120/rows.json

# A-ta_grpo_tapered-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0001-s3-120/rows.json

# A-ta_grpo_tapered-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0001-s4-120/rows.json

# A-ta_grpo_tapered-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0001-s5-120/rows.json

# A-ta_grpo_tapered-0.0002-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0002 --seed 101 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0002-s101-120/rows.json

# A-ta_grpo_tapered-0.0002-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0002 --seed 102 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0002-s102-120/rows.json

# A-ta_grpo_tapered-0.0003-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0003 --seed 101 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0003-s101-120/rows.json

# A-ta_grpo_tapered-0.0003-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered --rate 0.0003 --seed 102 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered-0.0003-s102-120/rows.json

# A-ta_grpo_tapered_broken-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered_broken --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered_broken-0.0001-s1-120/rows.json

# A-ta_grpo_tapered_broken-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered_broken --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered_broken-0.0001-s2-120/rows.json

# A-ta_grpo_tapered_broken-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered_broken --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered_broken-0.0001-s3-120/rows.json

# A-ta_grpo_tapered_broken-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered_broken --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered_broken-0.0001-s4-120/rows.json

# A-ta_grpo_tapered_broken-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_grpo_tapered_broken --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-ta_grpo_tapered_broken-0.0001-s5-120/rows.json

# A-ta_rescue-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s1-120/rows.json

# A-ta_rescue-0.0001-s1-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 1 --points 240 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s1-240/rows.json

# A-ta_rescue-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s2-120/rows.json

# A-ta_rescue-0.0001-s2-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 2 --points 240 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s2-240/rows.json

# A-ta_rescue-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s3-120/rows.json

# A-ta_rescue-0.0001-s3-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 3 --points 240 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s3-240/rows.json

# A-ta_rescue-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s4-120/rows.json

# A-ta_rescue-0.0001-s4-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 4 --points 240 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s4-240/rows.json

# A-ta_rescue-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s5-120/rows.json

# A-ta_rescue-0.0001-s5-240
python -m benchmarks.studies.sandbox_plain $STUDY/world-A ta_rescue --rate 0.0001 --seed 5 --points 240 --out $STUDY/plain/cells/A-ta_rescue-0.0001-s5-240/rows.json

# A640-base-0-s0-0
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 base --rate 0 --seed 0 --points 0 --out $STUDY/plain/cells/A640-base-0-s0-0/rows.json

# A640-grpo_1-0.0002-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1 --rate 0.0002 --seed 1 --points 120 --out $STUDY/plain/cells/A640-grpo_1-0.0002-s1-120/rows.json

# A640-grpo_1-0.0002-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1 --rate 0.0002 --seed 2 --points 120 --out $STUDY/plain/cells/A640-grpo_1-0.0002-s2-120/rows.json

# A640-grpo_1-0.0002-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1 --rate 0.0002 --seed 3 --points 120 --out $STUDY/plain/cells/A640-grpo_1-0.0002-s3-120/rows.json

# A640-grpo_1-0.0002-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1 --rate 0.0002 --seed 4 --points 120 --out $STUDY/plain/cells/A640-grpo_1-0.0002-s4-120/rows.json

# A640-grpo_1-0.0002-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1 --rate 0.0002 --seed 5 --points 120 --out $STUDY/plain/cells/A640-grpo_1-0.0002-s5-120/rows.json

# A640-grpo_1.5-0.0002-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1.5 --rate 0.0002 --seed 1 --points 120 --out $STUDY/plain/cells/A640-grpo_1.5-0.0002-s1-120/rows.json

# A640-grpo_1.5-0.0002-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1.5 --rate 0.0002 --seed 2 --points 120 --out $STUDY/plain/cells/A640-grpo_1.5-0.0002-s2-120/rows.json

# A640-grpo_1.5-0.0002-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1.5 --rate 0.0002 --seed 3 --points 120 --out $STUDY/plain/cells/A640-grpo_1.5-0.0002-s3-120/rows.json

# A640-grpo_1.5-0.0002-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1.5 --rate 0.0002 --seed 4 --points 120 --out $STUDY/plain/cells/A640-grpo_1.5-0.0002-s4-120/rows.json

# A640-grpo_1.5-0.0002-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_1.5 --rate 0.0002 --seed 5 --points 120 --out $STUDY/plain/cells/A640-grpo_1.5-0.0002-s5-120/rows.json

# A640-grpo_2-0.0002-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2 --rate 0.0002 --seed 1 --points 120 --out $STUDY/plain/cells/A640-grpo_2-0.0002-s1-120/rows.json

# A640-grpo_2-0.0002-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2 --rate 0.0002 --seed 2 --points 120 --out $STUDY/plain/cells/A640-grpo_2-0.0002-s2-120/rows.json

# A640-grpo_2-0.0002-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2 --rate 0.0002 --seed 3 --points 120 --out $STUDY/plain/cells/A640-grpo_2-0.0002-s3-120/rows.json

# A640-grpo_2-0.0002-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2 --rate 0.0002 --seed 4 --points 120 --out $STUDY/plain/cells/A640-grpo_2-0.0002-s4-120/rows.json

# A640-grpo_2-0.0002-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2 --rate 0.0002 --seed 5 --points 120 --out $STUDY/plain/cells/A640-grpo_2-0.0002-s5-120/rows.json

# A640-grpo_2.5-0.0002-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2.5 --rate 0.0002 --seed 1 --points 120 --out $STUDY/plain/cells/A640-grpo_2.5-0.0002-s1-120/rows.json

# A640-grpo_2.5-0.0002-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2.5 --rate 0.0002 --seed 2 --points 120 --out $STUDY/plain/cells/A640-grpo_2.5-0.0002-s2-120/rows.json

# A640-grpo_2.5-0.0002-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2.5 --rate 0.0002 --seed 3 --points 120 --out $STUDY/plain/cells/A640-grpo_2.5-0.0002-s3-120/rows.json

# A640-grpo_2.5-0.0002-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2.5 --rate 0.0002 --seed 4 --points 120 --out $STUDY/plain/cells/A640-grpo_2.5-0.0002-s4-120/rows.json

# A640-grpo_2.5-0.0002-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 grpo_2.5 --rate 0.0002 --seed 5 --points 120 --out $STUDY/plain/cells/A640-grpo_2.5-0.0002-s5-120/rows.json

# A640-ta_rescue_1-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_1 --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_1-0.0001-s1-120/rows.json

# A640-ta_rescue_1-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_1 --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_1-0.0001-s2-120/rows.json

# A640-ta_rescue_1-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_1 --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_1-0.0001-s3-120/rows.json

# A640-ta_rescue_1-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_1 --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_1-0.0001-s4-120/rows.json

# A640-ta_rescue_1-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_1 --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_1-0.0001-s5-120/rows.json

# A640-ta_rescue_2.5-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_2.5 --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_2.5-0.0001-s1-120/rows.json

# A640-ta_rescue_2.5-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_2.5 --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_2.5-0.0001-s2-120/rows.json

# A640-ta_rescue_2.5-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_2.5 --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_2.5-0.0001-s3-120/rows.json

# A640-ta_rescue_2.5-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_2.5 --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_2.5-0.0001-s4-120/rows.json

# A640-ta_rescue_2.5-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-A640 ta_rescue_2.5 --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/A640-ta_rescue_2.5-0.0001-s5-120/rows.json

# C-base-0-s0-0
python -m benchmarks.studies.sandbox_plain $STUDY/world-C base --rate 0 --seed 0 --points 0 --out $STUDY/plain/cells/C-base-0-s0-0/rows.json

# C-grpo-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s1-120/rows.json

# C-grpo-0.0001-s10-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 10 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s10-120/rows.json

# C-grpo-0.0001-s11-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 11 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s11-120/rows.json

# C-grpo-0.0001-s12-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 12 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s12-120/rows.json

# C-grpo-0.0001-s13-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 13 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s13-120/rows.json

# C-grpo-0.0001-s14-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 14 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s14-120/rows.json

# C-grpo-0.0001-s15-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 15 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s15-120/rows.json

# C-grpo-0.0001-s16-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 16 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s16-120/rows.json

# C-grpo-0.0001-s17-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 17 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s17-120/rows.json

# C-grpo-0.0001-s18-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 18 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s18-120/rows.json

# C-grpo-0.0001-s19-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 19 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s19-120/rows.json

# C-grpo-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s2-120/rows.json

# C-grpo-0.0001-s20-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 20 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s20-120/rows.json

# C-grpo-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s3-120/rows.json

# C-grpo-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s4-120/rows.json

# C-grpo-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s5-120/rows.json

# C-grpo-0.0001-s6-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 6 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s6-120/rows.json

# C-grpo-0.0001-s7-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 7 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s7-120/rows.json

# C-grpo-0.0001-s8-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 8 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s8-120/rows.json

# C-grpo-0.0001-s9-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C grpo --rate 0.0001 --seed 9 --points 120 --out $STUDY/plain/cells/C-grpo-0.0001-s9-120/rows.json

# C-ta_grpo_2-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s1-120/rows.json

# C-ta_grpo_2-0.0001-s10-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 10 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s10-120/rows.json

# C-ta_grpo_2-0.0001-s11-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 11 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s11-120/rows.json

# C-ta_grpo_2-0.0001-s12-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 12 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s12-120/rows.json

# C-ta_grpo_2-0.0001-s13-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 13 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s13-120/rows.json

# C-ta_grpo_2-0.0001-s14-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 14 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s14-120/rows.json

# C-ta_grpo_2-0.0001-s15-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 15 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s15-120/rows.json

# C-ta_grpo_2-0.0001-s16-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 16 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s16-120/rows.json

# C-ta_grpo_2-0.0001-s17-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 17 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s17-120/rows.json

# C-ta_grpo_2-0.0001-s18-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 18 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s18-120/rows.json

# C-ta_grpo_2-0.0001-s19-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 19 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s19-120/rows.json

# C-ta_grpo_2-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s2-120/rows.json

# C-ta_grpo_2-0.0001-s20-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 20 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s20-120/rows.json

# C-ta_grpo_2-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s3-120/rows.json

# C-ta_grpo_2-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s4-120/rows.json

# C-ta_grpo_2-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s5-120/rows.json

# C-ta_grpo_2-0.0001-s6-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 6 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s6-120/rows.json

# C-ta_grpo_2-0.0001-s7-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 7 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s7-120/rows.json

# C-ta_grpo_2-0.0001-s8-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 8 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s8-120/rows.json

# C-ta_grpo_2-0.0001-s9-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_grpo_2 --rate 0.0001 --seed 9 --points 120 --out $STUDY/plain/cells/C-ta_grpo_2-0.0001-s9-120/rows.json

# C-ta_rescue-0.0001-s1-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 1 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s1-120/rows.json

# C-ta_rescue-0.0001-s10-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 10 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s10-120/rows.json

# C-ta_rescue-0.0001-s11-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 11 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s11-120/rows.json

# C-ta_rescue-0.0001-s12-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 12 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s12-120/rows.json

# C-ta_rescue-0.0001-s13-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 13 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s13-120/rows.json

# C-ta_rescue-0.0001-s14-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 14 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s14-120/rows.json

# C-ta_rescue-0.0001-s15-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 15 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s15-120/rows.json

# C-ta_rescue-0.0001-s16-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 16 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s16-120/rows.json

# C-ta_rescue-0.0001-s17-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 17 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s17-120/rows.json

# C-ta_rescue-0.0001-s18-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 18 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s18-120/rows.json

# C-ta_rescue-0.0001-s19-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 19 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s19-120/rows.json

# C-ta_rescue-0.0001-s2-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 2 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s2-120/rows.json

# C-ta_rescue-0.0001-s20-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 20 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s20-120/rows.json

# C-ta_rescue-0.0001-s3-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 3 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s3-120/rows.json

# C-ta_rescue-0.0001-s4-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 4 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s4-120/rows.json

# C-ta_rescue-0.0001-s5-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 5 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s5-120/rows.json

# C-ta_rescue-0.0001-s6-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 6 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s6-120/rows.json

# C-ta_rescue-0.0001-s7-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 7 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s7-120/rows.json

# C-ta_rescue-0.0001-s8-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 8 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s8-120/rows.json

# C-ta_rescue-0.0001-s9-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-C ta_rescue --rate 0.0001 --seed 9 --points 120 --out $STUDY/plain/cells/C-ta_rescue-0.0001-s9-120/rows.json

# E-base-0-s0-0
python -m benchmarks.studies.sandbox_plain $STUDY/world-E base --rate 0 --seed 0 --points 0 --out $STUDY/plain/cells/E-base-0-s0-0/rows.json

# E-grpo-0.0001-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E grpo --rate 0.0001 --seed 101 --points 120 --out $STUDY/plain/cells/E-grpo-0.0001-s101-120/rows.json

# E-grpo-0.0001-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E grpo --rate 0.0001 --seed 102 --points 120 --out $STUDY/plain/cells/E-grpo-0.0001-s102-120/rows.json

# E-grpo-0.0002-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E grpo --rate 0.0002 --seed 101 --points 120 --out $STUDY/plain/cells/E-grpo-0.0002-s101-120/rows.json

# E-grpo-0.0002-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E grpo --rate 0.0002 --seed 102 --points 120 --out $STUDY/plain/cells/E-grpo-0.0002-s102-120/rows.json

# E-grpo-0.0003-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E grpo --rate 0.0003 --seed 101 --points 120 --out $STUDY/plain/cells/E-grpo-0.0003-s101-120/rows.json

# E-grpo-0.0003-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E grpo --rate 0.0003 --seed 102 --points 120 --out $STUDY/plain/cells/E-grpo-0.0003-s102-120/rows.json

# E-ta_rescue-0.0001-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E ta_rescue --rate 0.0001 --seed 101 --points 120 --out $STUDY/plain/cells/E-ta_rescue-0.0001-s101-120/rows.json

# E-ta_rescue-0.0001-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E ta_rescue --rate 0.0001 --seed 102 --points 120 --out $STUDY/plain/cells/E-ta_rescue-0.0001-s102-120/rows.json

# E-ta_rescue-0.0002-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E ta_rescue --rate 0.0002 --seed 101 --points 120 --out $STUDY/plain/cells/E-ta_rescue-0.0002-s101-120/rows.json

# E-ta_rescue-0.0002-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E ta_rescue --rate 0.0002 --seed 102 --points 120 --out $STUDY/plain/cells/E-ta_rescue-0.0002-s102-120/rows.json

# E-ta_rescue-0.0003-s101-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E ta_rescue --rate 0.0003 --seed 101 --points 120 --out $STUDY/plain/cells/E-ta_rescue-0.0003-s101-120/rows.json

# E-ta_rescue-0.0003-s102-120
python -m benchmarks.studies.sandbox_plain $STUDY/world-E ta_rescue --rate 0.0003 --seed 102 --points 120 --out $STUDY/plain/cells/E-ta_rescue-0.0003-s102-120/rows.json
