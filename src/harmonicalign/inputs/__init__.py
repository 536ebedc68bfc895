"""Validation of what users pass, and one form for all of it: data, links, settings, blocks.

It knows shapes, names and types of data, and nothing of how datasets are aligned.
"""
