"""What the screen says and shows, computed from a snapshot: pure, no Textual."""
