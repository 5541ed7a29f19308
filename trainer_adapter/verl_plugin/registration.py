"""Makes verl know trainer, agent loop and advantage estimator; verl loads it in every process."""

from verl.experimental.agent_loop.agent_loop import register
from verl.trainer.ppo.core_algos import register_adv_est
from verl.trainer.ppo.v1.trainer_base import register_trainer

from trainer_adapter.verl_plugin import NAME
from trainer_adapter.verl_plugin.agent_loop import NeighborAgentLoop
from trainer_adapter.verl_plugin.checks import check_version
from trainer_adapter.verl_plugin.estimator import computed_advantages
from trainer_adapter.verl_plugin.trainer import NeighborTrainer

check_version()
register(NAME)(NeighborAgentLoop)
register_adv_est(NAME)(computed_advantages)
register_trainer(NAME)(NeighborTrainer)
