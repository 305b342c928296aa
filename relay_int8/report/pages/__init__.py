"""Self-contained HTML pages: one file with text, tables and figures, which opens offline."""
