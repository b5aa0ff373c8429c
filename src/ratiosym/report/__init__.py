"""What came out: statistics, figures, tables and the page that holds them."""
