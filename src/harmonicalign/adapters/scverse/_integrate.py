"""`harmonic_integrate`: the call that users of scanpy know from other methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harmonicalign._typing import RandomState
from harmonicalign.adapters.scverse._align import align
from harmonicalign.adapters.scverse._data import examples, is_anndata

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["harmonic_integrate"]


def harmonic_integrate(
    adata: AnnData,
    key: str | Sequence[str],
    *,
    basis: str | None = "X_pca",
    adjusted_basis: str = "X_harmonic",
    covariates: str | Sequence[str] | None = None,
    random_state: RandomState = 0,
    copy: bool = False,
    **params: Any,
) -> AnnData | None:
    """Integrate the batches of one AnnData, in the way of ``scanpy.external.pp.harmony_integrate``.

    The same as `align`, which returns the model as well: use that to transfer labels, to correct expression,
    or to map new cells.

    Parameters
    ----------
    adata
        All cells, normalised and logarithmised.
    key
        Column of obs with the batches; of several, every combination of their values is a batch.
    basis
        Entry of obsm that the graph of each batch is built on; None reduces each batch by itself. The genes
        in X (those flagged as highly variable) are what is compared between batches.
    adjusted_basis
        Entry of obsm for the aligned coordinates. It begins with ``"X_"``, and the rest names everything
        else: ``"X_harmonic"`` has the graph ``neighbors_key="harmonic"``.
    covariates
        Columns of obs whose differences are to be kept, such as a treatment that most cells of one batch had
        and few of another; see `align`.
    random_state
        Seed.
    copy
        Return an annotated copy.
    **params
        Further parameters of `align` or `HarmonicAlignment`.

    Returns
    -------
    adata
        None, or with `copy` the annotated copy. See `harmonicalign.scverse` for what is written.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from harmonicalign.adapters import scverse
    >>> from harmonicalign.datasets import load_digits_pair
    >>> pair = load_digits_pair(preserved=0.7, n_x=100, n_y=100, random_state=0)
    >>> cells = anndata.AnnData(np.vstack([pair.x, pair.y]) / 16)
    >>> cells.obs["day"] = np.repeat(["first", "second"], 100)
    >>> scverse.harmonic_integrate(cells, "day", basis=None)
    >>> "X_harmonic" in cells.obsm
    True
    """
    if not is_anndata(adata):
        raise ValueError(
            f"adata is of type {type(adata).__name__}; expected one AnnData; align takes several"
        )
    if basis is not None and basis not in adata.obsm:
        raise ValueError(
            f"obsm has no {basis!r} (it has {examples(adata.obsm.keys(), 8) or 'no entries'}); run "
            "scanpy.pp.pca first, name another basis, or pass basis=None to reduce each batch by itself"
        )
    if not adjusted_basis.startswith("X_") or adjusted_basis == "X_":
        raise ValueError(
            f"adjusted_basis is {adjusted_basis!r}; it must begin with 'X_', as 'X_harmonic' does"
        )
    found = align(
        adata,
        batch_key=key,
        use_rep=basis,
        covariates=covariates,
        key_added=adjusted_basis.removeprefix("X_"),
        random_state=random_state,
        copy=copy,
        **params,
    )
    return found[0] if copy else None
