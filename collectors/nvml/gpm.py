"""GPM (Hopper and later): what a card or a MIG instance did between two samples, so exactly over the interval."""

from __future__ import annotations

import math
import time
from typing import Any

from collectors.nvml.driver import Missing, nvml, query
from collectors.nvml.schema import GPM_METRICS

#: metrics of two samples that are closer together than this say little (the driver's own floor is 100 ms)
LEAST_SECONDS = 0.1


def is_supported(handle: Any) -> bool:
    """Whether the card has GPM at all; false for drivers and libraries that do not know the question."""
    support = query("nvmlGpmQueryDeviceSupport", handle)
    return not isinstance(support, Missing) and bool(support.isSupportedDevice)


class GpmSeries:
    """The samples of one card, or of one GPU instance of it. The first one is taken here, before the first reading."""

    def __init__(self, handle: Any, instance_id: int | None) -> None:
        self._handle, self._instance_id = handle, instance_id
        self._samples = [query("nvmlGpmSampleAlloc"), query("nvmlGpmSampleAlloc")]
        self._request = nvml.c_nvmlGpmMetricsGet_t()
        self._taken_at: float | None = None
        self._take()

    def close(self) -> None:
        for sample in self._samples:
            if not isinstance(sample, Missing):
                query("nvmlGpmSampleFree", sample)

    def read(self) -> dict[str, float | Missing]:
        """Column → value per second or ratio, over the time since the reading before; Missing where there is none."""
        before = self._taken_at
        missing = self._take()
        if missing is None and (before is None or self._taken_at is None or self._taken_at - before < LEAST_SECONDS):
            missing = Missing("gap")
        if missing is None:
            missing = self._compare()
        if missing is not None:
            return {metric.column: missing for metric in GPM_METRICS}
        return {metric.column: self._value(position) for position, metric in enumerate(GPM_METRICS)}

    def _take(self) -> Missing | None:
        """Fill the older of the two samples anew."""
        self._samples.reverse()
        sample = self._samples[1]
        if isinstance(sample, Missing):
            return sample
        if self._instance_id is None:
            taken = query("nvmlGpmSampleGet", self._handle, sample)
        else:
            taken = query("nvmlGpmMigSampleGet", self._handle, self._instance_id, sample)
        if isinstance(taken, Missing):
            # neither sample is to be compared with the next: this one may be half filled
            self._taken_at = None
            return taken
        self._taken_at = time.monotonic()
        return None

    def _compare(self) -> Missing | None:
        request = self._request
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(GPM_METRICS)
        request.sample1, request.sample2 = self._samples
        for position, metric in enumerate(GPM_METRICS):
            request.metrics[position].metricId = getattr(nvml, metric.metric)
        answer = query("nvmlGpmMetricsGet", request)
        return answer if isinstance(answer, Missing) else None

    def _value(self, position: int) -> float | Missing:
        answer = self._request.metrics[position]
        if answer.nvmlReturn != nvml.NVML_SUCCESS:
            return Missing("not_supported" if answer.nvmlReturn == nvml.NVML_ERROR_NOT_SUPPORTED else "gap")
        value = float(answer.value)
        if not math.isfinite(value) or value < 0:
            return Missing("out_of_range")
        return value * GPM_METRICS[position].factor
