"""Results that are published: records that are kept, and tables in pages that are made of them."""
