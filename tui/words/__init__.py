"""The content of the screens, computed from a snapshot: pure, no Textual."""
