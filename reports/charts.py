"""The charts of the report, in reading order; each answers the question that is its title."""

from reports.dossier import Dossier
from reports.effect_charts import pairs_chart, predicted_chart
from reports.model import Chart
from reports.time_charts import percentiles_chart, shares_chart


def charts(dossier: Dossier) -> list[Chart]:
    """Return every chart that the records can fill."""
    found = (
        shares_chart(dossier),
        predicted_chart(dossier),
        pairs_chart(dossier),
        percentiles_chart(dossier),
    )
    return [chart for chart in found if chart is not None]
