"""What holds for all tests."""

import os
import tempfile

# Hulls of meshes are kept, but not in the folder of the user who runs the tests; before any import
# of vi_contact, and for the processes that tests start.
_cache = tempfile.TemporaryDirectory(prefix="vi_contact_cache_")
os.environ["VI_CONTACT_CACHE"] = _cache.name
