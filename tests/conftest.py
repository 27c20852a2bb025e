"""What all tests share: hypothesis without deadlines (compiled code's first call is slow)."""

from hypothesis import settings

settings.register_profile("samebits", deadline=None, derandomize=True)
settings.load_profile("samebits")
