"""Numbers as people write them."""

from __future__ import annotations

__all__ = ["percent", "readable_p", "tight"]


def readable_p(p: float) -> str:
    """A probability in readable form: 0.03, 4 × 10⁻⁷."""
    if p >= 0.001:
        return f"{p:.2g}"
    if p < 1e-99:
        return "below 10⁻⁹⁹"
    mantissa, exponent = f"{p:.0e}".split("e")
    raised = str(abs(int(exponent))).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return tight(f"{mantissa} × 10") + f"⁻{raised}"


def percent(share: float) -> str:
    """A share in whole percent, with a non-breaking space before the sign."""
    return tight(f"{100 * share:.0f} %")


def tight(text: str) -> str:
    """The text with non-breaking spaces."""
    return text.replace(" ", "\u00a0").replace("-", "−")
