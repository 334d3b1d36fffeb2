"""What the commands print with: columns, amounts, progress."""
