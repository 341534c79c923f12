"""The page and its JSON: an HTTP server over a running system. What it shows comes as values from ``observe``."""
