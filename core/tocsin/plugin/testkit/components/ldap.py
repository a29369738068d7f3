"""A directory server with one domain."""

import subprocess
from pathlib import Path

from tocsin.plugin.testkit.components.missing import require_program
from tocsin.plugin.testkit.components.ports import free_port
from tocsin.plugin.testkit.components.process import PATIENCE, Program, give_directory

_SCHEMAS = ("core", "cosine", "inetorgperson", "nis")


class Slapd(Program):
    """An OpenLDAP server for `dc=example,dc=org` with the units people and groups; the manager may do everything."""

    base = "dc=example,dc=org"
    manager = "cn=manager,dc=example,dc=org"
    manager_password = "not-a-secret"

    def __init__(self, directory: Path) -> None:
        program = require_program("slapd", "slapd")
        self._ldapadd = require_program("ldapadd", "ldap-utils")
        self.port = free_port()
        self.url = f"ldap://127.0.0.1:{self.port}"
        data = give_directory(directory / "data", "openldap")
        config = directory / "slapd.conf"
        config.write_text(self._config(data))
        config.chmod(0o644)
        # Any debug level, even 0, keeps slapd in the foreground.
        argv: list[str | Path] = [program, "-f", config, "-h", f"{self.url}/", "-d", "0"]
        super().__init__("slapd", argv, directory=directory, user="openldap")

    def _config(self, data: Path) -> str:
        includes = "".join(f"include /etc/ldap/schema/{name}.schema\n" for name in _SCHEMAS)
        return (
            f"{includes}modulepath /usr/lib/ldap\nmoduleload back_mdb\n"
            f'database mdb\nmaxsize 67108864\nsuffix "{self.base}"\nrootdn "{self.manager}"\n'
            f"rootpw {self.manager_password}\ndirectory {data}\nindex objectClass eq\nindex uid,mail eq\n"
            "access to attrs=userPassword by self write by anonymous auth by * none\naccess to * by * read\n"
        )

    def ready(self) -> bool:
        """Whether the manager can log in; the first time it also creates the domain and its two units."""
        self.add(
            f"dn: {self.base}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n\n"
            f"dn: ou=people,{self.base}\nobjectClass: organizationalUnit\nou: people\n\n"
            f"dn: ou=groups,{self.base}\nobjectClass: organizationalUnit\nou: groups\n",
            existing_is_fine=True,
        )
        return True

    def add(self, ldif: str, *, existing_is_fine: bool = False) -> None:
        """Add entries in LDIF; a refusal is an `OSError` with the server's message."""
        argv = [str(self._ldapadd), "-x", "-H", self.url, "-D", self.manager, "-w", self.manager_password]
        if existing_is_fine:
            argv.append("-c")
        done = subprocess.run(argv, input=ldif, capture_output=True, text=True, timeout=PATIENCE)
        already_exists = 68
        if done.returncode and not (existing_is_fine and done.returncode == already_exists):
            raise OSError(f"ldapadd: {done.stderr.strip()}")

    def add_person(self, uid: str, password: str, *, name: str, mail: str = "") -> str:
        """Add a person below ou=people and return the distinguished name."""
        dn = f"uid={uid},ou=people,{self.base}"
        lines = [f"dn: {dn}", "objectClass: inetOrgPerson", f"uid: {uid}", f"cn: {name}", f"sn: {name.split()[-1]}"]
        lines += [f"userPassword: {password}", *([f"mail: {mail}"] if mail else [])]
        self.add("\n".join(lines) + "\n")
        return dn

    def add_group(self, name: str, members: list[str]) -> str:
        """Add a group of distinguished names below ou=groups and return its distinguished name."""
        dn = f"cn={name},ou=groups,{self.base}"
        lines = [f"dn: {dn}", "objectClass: groupOfNames", f"cn: {name}", *(f"member: {dn}" for dn in members)]
        self.add("\n".join(lines) + "\n")
        return dn
