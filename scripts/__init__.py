"""Small programs for whoever works on this repository; they are not installed."""
