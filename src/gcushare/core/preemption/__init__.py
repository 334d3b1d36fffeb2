"""Which pods must end for a pod to fit, and the room that is kept for it until it is bound."""
