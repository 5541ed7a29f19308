"""Shared by all pages: links, untrusted text, differences, tables, charts, layout."""
