"""Validation of user input and its conversion to one form: data, links, settings, blocks.

It handles shapes, names and types of data, and does not depend on the alignment methods.
"""
