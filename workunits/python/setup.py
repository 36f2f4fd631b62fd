"""A wheel with the programs in texcell/bin is of a platform, which TEXCELL_PLATFORM names; one without is of any."""
import os

from setuptools import setup
from wheel.bdist_wheel import bdist_wheel

PLATFORM = os.environ.get("TEXCELL_PLATFORM")


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = PLATFORM is None

    def get_tag(self):
        return "py3", "none", PLATFORM or "any"


setup(cmdclass={"bdist_wheel": Wheel})
