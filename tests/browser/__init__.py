"""The page in a real Chromium, driven by Playwright."""
