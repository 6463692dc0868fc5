"""The screens, and the app that holds them."""
