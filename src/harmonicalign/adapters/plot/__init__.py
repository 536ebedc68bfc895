"""Pictures of an alignment: spectra, correlations, embeddings, weights, confidence, errors.

Every function takes a fitted model, AnnData that an alignment has annotated, or plain arrays. It draws into
the Axes it is given (or a figure of its own) and returns the Axes. matplotlib is imported when something is
drawn. Colours are those of Okabe and Ito, which colour-blind readers can tell apart; datasets also differ by
marker or line style.
"""

from harmonicalign.adapters.plot.embeddings import before_after, embedding
from harmonicalign.adapters.plot.quality import alignment_error, confidence, feature_weights
from harmonicalign.adapters.plot.spectra import correlation, spectrum

__all__ = [
    "alignment_error",
    "before_after",
    "confidence",
    "correlation",
    "embedding",
    "feature_weights",
    "spectrum",
]
