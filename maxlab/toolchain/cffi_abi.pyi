# The generated module has one name; cffi ships no types.
from typing import Any

ffi: Any
