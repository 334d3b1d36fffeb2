"""``gcushare support-bundle``: one archive for support, of fields that are allowed by name.

``bundle``: what is put in, in which order and under which names. ``cut_objects``: which fields of objects,
``cut_answers``: which of what programs answer, ``log_filter``: which lines of logs. ``redact``: what is masked in the
rest, secrets and names that ``bundle`` knows.
"""
