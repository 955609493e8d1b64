"""Every lever that a plan may pull, by name."""

from tuning.modules.attention import Attention
from tuning.modules.batching import Batching
from tuning.modules.context_size import ContextSize
from tuning.modules.cuda_graphs import CudaGraphs
from tuning.modules.host import Host
from tuning.modules.kv_cache import KvCache
from tuning.modules.prefix_cache import PrefixCache
from tuning.modules.protocol import Lever
from tuning.modules.speculative import Speculative
from tuning.modules.step_size import StepSize

MODULES: dict[str, type[Lever]] = {
    "attention": Attention,
    "batching": Batching,
    "context_size": ContextSize,
    "cuda_graphs": CudaGraphs,
    "host": Host,
    "kv_cache": KvCache,
    "prefix_cache": PrefixCache,
    "speculative": Speculative,
    "step_size": StepSize,
}

__all__ = ["MODULES", "Lever"]
