"""python -m deadheat: the program itself, with the same arguments."""

import os
import sys

from .program import program

os.execv(program(), ["deadheat", *sys.argv[1:]])
