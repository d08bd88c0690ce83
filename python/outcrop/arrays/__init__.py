"""Arrays: what users hold, what they are views of, and how they come to disk or memory."""
