"""Seeing robots: scenes for the browser, in one file that needs no network."""
