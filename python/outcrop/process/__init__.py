"""The process: its settings, its devices, its memory."""
