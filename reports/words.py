"""Plain words for the closed lists of the records, so that a reader needs no code book."""

from typing import Literal, NamedTuple

CLASS_WORDS = {
    "prefill": "reading the prompt",
    "decode": "writing the answer",
    "kv_bandwidth": "re-reading the conversation memory (KV cache)",
    "scheduling": "waiting for the server's turn",
    "host": "work of the host around the model",
    "client": "the client or the network",
    "interconnect": "traffic between accelerators",
    "unexplained": "not explained",
}

CAUSE_WORDS = {
    "prefill_compute": "long prompts need more computing than the stack has",
    "prefix_cache_miss": "prompt text that was already read once is read again",
    "prefill_interference": "reading new prompts holds up answers that are being written",
    "mm_encode": "images or sound are encoded before the answer can begin",
    "weights_bandwidth": "every token waits for the whole model to be read from memory",
    "decode_compute": "writing tokens is limited by computing, not by memory",
    "speculation_loss": "guessing tokens ahead costs more than it saves",
    "kernel_inefficient": "the engine's kernels leave much of the hardware idle",
    "kv_bandwidth": "long conversations make every token re-read a large cache",
    "batch_cap": "the server admits too few requests at once, so others wait",
    "token_budget": "each step may hold too few tokens, so requests wait their turn",
    "kv_capacity": "the cache is too small: requests are put off or computed twice",
    "head_of_line": "one long request holds up the short ones behind it",
    "replica_imbalance": "some replicas are busy while others idle",
    "routing_affinity": "requests go to replicas that do not hold their cache",
    "lora_swap": "adapters are loaded again and again",
    "eager_mode": "the engine launches its kernels one by one instead of as a graph",
    "graph_coverage": "common batch sizes are missing from the captured graphs",
    "cpu_starvation": "the host gives the server too little CPU",
    "tokenizer": "turning text into tokens is the slow part",
    "grammar": "checking the output's grammar is the slow part",
    "serialised_server": "the server handles one request at a time outside the model",
    "frontend": "the HTTP front of the server is the slow part",
    "client_limited": "the load generator itself was the limit",
    "network": "the network between client and server is the slow part",
    "collective": "accelerators wait for each other",
    "kv_transfer": "moving the cache between memories or machines is the slow part",
}

DECISION_WORDS = {
    "kept": "kept",
    "rejected": "rejected",
    "no_change": "no measurable change",
    "failed": "failed",
    "pending": "not decided",
}

OUTCOME_WORDS = {
    "improved": "Improved and proved",
    "no_change_helps": "Leave it as it is",
    "proposed_only": "Proposed, not yet tried",
}


class Metric(NamedTuple):
    """How a goal metric is called, in which unit its pairs are, and which way is better."""

    label: str
    unit: str
    better: Literal["higher", "lower"]


METRIC_WORDS = {
    "ttft_p50": Metric("median time to first token", "s", "lower"),
    "e2e_p50": Metric("median time of a whole answer", "s", "lower"),
    "tpot_p50": Metric("median time per output token", "s", "lower"),
    "output_tokens_per_s": Metric("output tokens per second", "tok/s", "higher"),
    "goodput_per_s": Metric("requests per second within the promise", "1/s", "higher"),
    "attainment": Metric("requests that keep the promise", "ratio", "higher"),
    "capacity": Metric("largest load within the promise", "1/s", "higher"),
}


def metric(name: str) -> Metric:
    """Return the words for a metric; one that is not listed keeps its own name."""
    return METRIC_WORDS.get(name, Metric(name.replace("_", " "), "", "higher"))


def time_class(name: str) -> str:
    """Return the plain words for a time class."""
    return CLASS_WORDS.get(name, name.replace("_", " "))


def cause(name: str) -> str:
    """Return the plain words for a cause."""
    return CAUSE_WORDS.get(name, name.replace("_", " "))
