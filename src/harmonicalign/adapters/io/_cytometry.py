"""Flow and mass cytometry: FCS files, through flowio."""

from __future__ import annotations

import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from harmonicalign.adapters.io._errors import DataFileError, missing

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["read_fcs", "write_fcs"]


def read_fcs(path: Path) -> AnnData:
    """Events by channels as AnnData.

    Channels are named by their marker ($PnS) where it is unique, else by their
    detector ($PnN); ``var`` keeps both. Gain, logarithmic amplification and time step are undone as
    the file says; neither compensation nor arcsinh is applied.
    """
    import anndata
    import pandas as pd

    flowio = _flowio()
    with path.open("rb") as file:
        events = flowio.FlowData(file)
    if events.events is None:
        raise DataFileError(f"{path} stores its events in a way that flowio does not read")
    if len(events.events) != events.event_count * events.channel_count:
        raise DataFileError(
            f"{path} announces {events.event_count} events of {events.channel_count} channels "
            f"but holds {len(events.events)} values; it is cut short or damaged"
        )
    if not events.event_count or not events.channel_count:
        raise DataFileError(f"{path} holds no events")
    detectors = [str(name).strip() for name in events.pnn_labels]
    markers = [str(name).strip() for name in events.pns_labels]
    return anndata.AnnData(
        X=events.as_array(preprocess=True),
        obs=pd.DataFrame(index=[str(i) for i in range(events.event_count)]),
        var=pd.DataFrame({"channel": detectors, "marker": markers}, index=_names(detectors, markers)),
    )


def write_fcs(data: AnnData, path: Path) -> None:
    """Write the matrix as FCS 3.1 in single precision; features name both detectors and markers."""
    if data.X is None:
        raise DataFileError("the data has no matrix X, which is what an FCS file holds; write h5ad or zarr")
    flowio = _flowio()
    names = [str(v) for v in data.var_names]
    if any("," in name for name in names):  # forbidden in $PnN, as lists of channels are comma-separated
        raise DataFileError("an FCS file cannot hold names of features with commas; rename them")
    values = data.X.toarray() if sp.issparse(data.X) else np.asarray(data.X)
    largest = np.abs(values[np.isfinite(values)], dtype=np.float64).max(initial=0)
    if largest > np.finfo(np.float32).max:
        raise DataFileError(f"an FCS file holds single precision, and values reach {largest:.3g}; scale them")
    flat = array.array("f")
    flat.frombytes(np.ascontiguousarray(values, dtype=np.float32).tobytes())
    with path.open("wb") as file:
        flowio.create_fcs(file, flat, names, opt_channel_names=names)


def _flowio() -> Any:
    try:
        import flowio
    except ImportError as error:
        raise missing("flowio", "a cytometry file (FCS)") from error
    return flowio


def _names(detectors: list[str], markers: list[str]) -> list[str]:
    """A marker's name where only one channel has it, else the detector's."""
    own = [m if m and markers.count(m) == 1 else d for d, m in zip(detectors, markers, strict=True)]
    return [m if own.count(m) == 1 else d for d, m in zip(detectors, own, strict=True)]
