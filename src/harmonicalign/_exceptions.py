"""Warnings and errors that users may want to catch by class."""

__all__ = ["AlignmentWarning", "DisconnectedGraphWarning", "ModelFileError", "NotNumbersError"]


class AlignmentWarning(UserWarning):
    """An alignment that the data does not support."""


class DisconnectedGraphWarning(AlignmentWarning):
    """A graph that falls apart into several components."""


class ModelFileError(ValueError):
    """A model file that is damaged, foreign or too new."""


class NotNumbersError(ValueError, TypeError):
    """Entries that are not numbers; scikit-learn calls this a `TypeError`, everything here a `ValueError`."""
