"""``gcushare support-bundle``: one archive for support, of what is allowed by name.

``bundle``: what is put in, in which order and under which names. ``cut_answers``: what of findings and of programs'
answers, ``log_filter``: which lines of logs. ``redact``: what is masked in the rest.
"""
