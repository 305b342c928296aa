"""Everything that is said about a network: the report, its pages, tables and figures."""
