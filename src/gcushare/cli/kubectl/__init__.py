"""What the commands of ``kubectl inspect`` share: names, flags, session, and the summary that they show."""
