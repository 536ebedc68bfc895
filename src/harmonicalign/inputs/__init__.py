"""What users hand over, brought to one form or refused with a reason: data, links, settings, memory.

It knows shapes, names and types of data, and nothing of how datasets are aligned.
"""
