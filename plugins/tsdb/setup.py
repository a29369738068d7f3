"""Builds the compiled decoder where there is a C compiler; without one the plain-Python twin is used."""

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

setup(
    packages=find_packages(include=["tocsin_tsdb*"]),
    package_data={"tocsin_tsdb": ["py.typed", "**/*.pyx"]},
    ext_modules=cythonize(
        [Extension("tocsin_tsdb.storage._wire", ["tocsin_tsdb/storage/_wire.pyx"], optional=True)], language_level=3
    ),
)
