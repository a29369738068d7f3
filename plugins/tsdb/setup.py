"""Builds the compiled modules where there is a C compiler; without one their plain-Python twins are used."""

import os

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

COMPILED = ("storage/_wire", "storage/_ranges", "storage/_chunks", "promql/_windows", "promql/_render")
QUICKLY = ["-g0"]
"""Without debugging information compilation takes half the time."""


def module(name: str) -> Extension:
    """Describe a compiled module."""
    return Extension(f"tocsin_tsdb.{name.replace('/', '.')}", [f"tocsin_tsdb/{name}.pyx"], extra_compile_args=QUICKLY)


extensions = cythonize([module(name) for name in COMPILED], language_level=3)
for extension in extensions:
    # Set afterwards, because cythonize does not keep it.
    extension.optional = os.environ.get("TOCSIN_REQUIRE_COMPILED") != "1"

setup(
    packages=find_packages(include=["tocsin_tsdb*"]),
    package_data={"tocsin_tsdb": ["py.typed", "**/*.pyx"]},
    ext_modules=extensions,
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
