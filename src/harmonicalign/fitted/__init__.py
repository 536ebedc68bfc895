"""From what a user asked for to a fitted alignment, an immutable object that can be used.

`parameters` checks what was asked, `fit` calls one of the two methods, `alignment` is what comes out;
`protocol` is what both methods' models offer, `conventions` what scikit-learn expects. It knows all rooms
above and no linear algebra.
"""

from harmonicalign.fitted.alignment import FittedAlignment
from harmonicalign.fitted.protocol import AlignedModel

__all__ = ["AlignedModel", "FittedAlignment"]
