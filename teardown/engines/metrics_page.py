"""An engine's Prometheus page, read into the kit's words by `engine_facts/metrics.json`."""

import json
import math
from collections import defaultdict

from teardown.engine_facts import histogram_name, metric_rows
from teardown.engines.protocol import Counters
from teardown.errors import TargetError


def samples(page: str) -> dict[str, list[float]]:
    """Return every sample's values by the name on the wire, one per label set; NaN is left out.

    TargetError when the text is no metrics page. Some llama.cpp builds (about b7010 to b7100)
    answer with the page as a quoted JSON string (ggml-org/llama.cpp#17384): it is unquoted.
    """
    from prometheus_client.parser import text_string_to_metric_families

    if page.startswith('"'):
        page = str(json.loads(page))
    values: dict[str, list[float]] = defaultdict(list)
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if not math.isnan(sample.value):
                    values[sample.name].append(float(sample.value))
    except ValueError as error:
        raise TargetError(f"the metrics page cannot be read: {error}") from error
    return dict(values)


def buckets(engine: str, word: str, page: str) -> dict[float, float]:
    """Return a histogram of `engine` as cumulative counts by upper bound, summed over label sets.

    Empty where the engine's facts name no such histogram, or the page does not have it.
    """
    from prometheus_client.parser import text_string_to_metric_families

    name = histogram_name(engine, word)
    found: dict[float, float] = defaultdict(float)
    if name is None:
        return found
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples if family.name == name else ():
                if sample.name == f"{name}_bucket":
                    found[float(sample.labels["le"])] += float(sample.value)
    except (ValueError, KeyError) as error:
        raise TargetError(f"the metrics page cannot be read: {error}") from error
    return dict(found)


def counters(engine: str, page: str) -> Counters:
    """Return one scrape of `engine` in the kit's words; None where the page has no such metric."""
    values = samples(page)
    found: dict[str, float] = {}
    for row in metric_rows(engine):
        join = sum if row.over_labels == "sum" else max
        for names in row.any_of:
            if all(values.get(name) for name in names):
                found[row.word] = sum(float(join(values[name])) for name in names)
                break
    return Counters(**found)
