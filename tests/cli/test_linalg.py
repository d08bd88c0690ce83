"""``outcrop matmul``, ``cholesky``, ``solve`` and ``plan``."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_interrupt import wait_for
from test_terminal import BAR, on_terminal, screen
