"""bench/lab: experiments whose question, measure and gate are fixed before the first figure is seen."""
import pathlib
import sys

# The harness is a sibling of this folder's parent.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))


class LabError(Exception):
    """A refusal: what is wrong and what to do, in one or two sentences."""
