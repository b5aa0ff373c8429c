"""Reports: statistics, figures, tables and the page that combines them."""
