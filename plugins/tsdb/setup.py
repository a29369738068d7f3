"""Builds the compiled decoder where there is a C compiler; without one the plain-Python twin is used."""

import os

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

extensions = cythonize(
    [Extension(f"tocsin_tsdb.storage.{name}", [f"tocsin_tsdb/storage/{name}.pyx"]) for name in ("_wire", "_ranges")],
    language_level=3,
)
for extension in extensions:
    # Set afterwards, because cythonize does not keep it.
    extension.optional = os.environ.get("TOCSIN_REQUIRE_COMPILED") != "1"

setup(
    packages=find_packages(include=["tocsin_tsdb*"]),
    package_data={"tocsin_tsdb": ["py.typed", "**/*.pyx"]},
    ext_modules=extensions,
)
