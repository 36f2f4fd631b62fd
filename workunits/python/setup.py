"""A wheel with the programs in texcell/bin is of a platform, which TEXCELL_PLATFORM names; one
without is of any."""
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
