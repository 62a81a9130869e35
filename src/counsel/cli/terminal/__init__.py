"""What people see and type: tables, Markdown, live text, progress, questions."""
