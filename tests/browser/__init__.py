"""The page in a real Chromium, driven through its DevTools protocol."""
