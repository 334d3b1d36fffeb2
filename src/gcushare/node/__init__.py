"""What both ways of giving out a node's cards share: how cards are found and offered, and what a container is given."""
