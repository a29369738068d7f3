"""The distribution ``tocsin``: sources under ``core/``, one optional compiled module for the ingest wire path."""

import os
import re
from pathlib import Path

from setuptools import Extension, find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(r'^__version__ = "(.+)"$', (ROOT / "core/tocsin/__init__.py").read_text(), re.M).group(1)


def extensions() -> list[Extension]:
    """Return the compiled wire path, or nothing when it was asked to stay pure or no Cython is there."""
    source = ROOT / "core/tocsin/ingest/_wire.pyx"
    if os.environ.get("TOCSIN_PURE") == "1" or not source.exists():
        return []
    required = os.environ.get("TOCSIN_REQUIRE_COMPILED") == "1"
    try:
        from Cython.Build import cythonize
    except ImportError:
        if required:
            raise
        return []
    module = Extension("tocsin.ingest._wire", [str(source.relative_to(ROOT))], extra_compile_args=["-O3", "-g0"])
    built = cythonize([module], language_level=3)
    for extension in built:
        extension.optional = not required  # set afterwards, because cythonize does not keep it
    return built


setup(
    name="tocsin",
    version=VERSION,
    description="Monitoring and alerting service: a small core and many plugins",
    long_description=(ROOT / "README.md").read_text() if (ROOT / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    package_dir={"": "core"},
    packages=find_packages("core"),
    package_data={
        "": ["py.typed", "*.pyi", "*.pyx", "*.pxi", "*.html", "*.toml", "*.yaml", "skeletons/*.tmpl", "*.json", "*.sh"]
    },
    include_package_data=False,
    zip_safe=False,
    ext_modules=extensions(),
    install_requires=[
        "argon2-cffi>=23.1",
        "cramjam>=2.9",
        "croniter>=3.0",
        "cryptography>=43",
        "falcon>=4.0",
        "google-re2>=1.1",
        "gunicorn>=27.0,<28",  # its worker and parser are extended, not only used
        "marshmallow>=4.0",
        "orjson>=3.10",
        "peewee>=4.0",
        "pluggy>=1.5",
        "prometheus-client>=0.21,<1",  # its files are written and read
        "PyJWT>=2.10",
        "PyYAML>=6.0",
        "urllib3>=2.2",
    ],
    extras_require={
        "redis": ["redis>=5.0"],
        "mysql": ["PyMySQL>=1.1"],
        "postgres": ["psycopg[binary]>=3.2"],
        "test": ["pytest>=8.3", "pytest-timeout>=2.3", "hypothesis>=6.110"],
    },
    entry_points={
        "console_scripts": ["tocsin = tocsin.app.cli:main"],
        "pytest11": ["tocsin = tocsin.plugin.testkit.pytest_plugin"],
    },
)
