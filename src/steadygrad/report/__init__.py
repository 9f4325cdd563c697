"""What people read: tables, pictures, one self-contained HTML page, and RESULTS.md."""
