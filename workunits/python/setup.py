"""Builds the wheel. With the programs in texcell/bin it is for the platform that TEXCELL_PLATFORM
names, without them for any platform."""
import os

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel

PLATFORM = os.environ.get("TEXCELL_PLATFORM")


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", PLATFORM or "any"


class OfPlatform(Distribution):
    def has_ext_modules(self):
        return PLATFORM is not None


setup(cmdclass={"bdist_wheel": Wheel}, distclass=OfPlatform)
