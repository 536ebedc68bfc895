from benchopt import safe_import_context

with safe_import_context() as import_ctx:
    import numpy as np
    from benchmark_utils.base_solver import DASolver, FinalEstimator
    from skada import make_da_pipeline
    from skada.base import BaseAdapter
    from skada.utils import check_X_domain

    from harmonicalign import HarmonicAlignment

    class HarmonicAdapter(BaseAdapter):
        """Coordinates of all domains in one space, by Harmonic Alignment; labels are not used.

        Parameters
        ----------
        n_neighbors
            Neighbours that set the bandwidth of each domain's graph; "auto" chooses it from the data.
        random_state
            Seed of the alignment.
        """

        def __init__(self, n_neighbors="auto", random_state=0):
            super().__init__()
            self.n_neighbors = n_neighbors
            self.random_state = random_state

        def fit_transform(self, X, y=None, *, sample_domain=None, **params):
            """Align the domains, and return the coordinates of their rows in the order given."""
            X, sample_domain = check_X_domain(
                X, sample_domain, allow_multi_source=True, allow_multi_target=True
            )
            self.model_ = HarmonicAlignment(n_neighbors=self.n_neighbors, random_state=self.random_state)
            return np.asarray(self.model_.fit_transform(X, batch=sample_domain))

        def fit(self, X, y=None, *, sample_domain=None, **params):
            """Align the domains."""
            self.fit_transform(X, y, sample_domain=sample_domain)
            return self

        def transform(self, X, y=None, *, sample_domain=None, allow_source=False, **params):
            """Place rows by the maps of their domains; those of the fit stay where they are."""
            X, sample_domain = check_X_domain(
                X,
                sample_domain,
                allow_source=allow_source,
                allow_multi_source=True,
                allow_multi_target=True,
            )
            out = None
            for domain in np.unique(sample_domain):
                rows = np.flatnonzero(sample_domain == domain)
                placed = np.asarray(self.model_.transform(X[rows], dataset=self._known(domain)))
                out = np.empty((len(X), placed.shape[1]), placed.dtype) if out is None else out
                out[rows] = placed
            return out

        def _known(self, domain):
            """A domain of the fit; one that is new is taken as the only target, where there is one."""
            if domain in self.model_.keys_:
                return domain
            targets = [key for key in self.model_.keys_ if key < 0]
            if domain >= 0 or len(targets) != 1:
                raise ValueError(f"domain {domain} was not aligned; fit had {self.model_.keys_}")
            return targets[0]


class Solver(DASolver):
    """Harmonic Alignment, then the benchmark's own classifiers on the joint coordinates."""

    name = "HARMONIC_ALIGNMENT"

    requirements = ["pip::harmonicalign>=0.2"]

    # Nothing of the alignment is searched: its settings follow from the data.
    default_param_grid = {
        "finalestimator__estimator_name": ["LR", "SVC", "XGB"],
    }

    def get_estimator(self, **kwargs):
        """The alignment and a classifier on its coordinates."""
        return make_da_pipeline(HarmonicAdapter(), FinalEstimator())
