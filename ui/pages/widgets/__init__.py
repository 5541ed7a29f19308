"""What all pages share: the database, links, hostile text, differences, tables, charts, layout."""
