"""Models of architectures that are known by name; so far, the older import paths of ``nn``."""
