#!/usr/bin/env bash
# Installs the collector on this host and lets it report to a monitoring service.
# Everything happens in functions, so that a script which was cut off on its way does nothing.
set -euo pipefail

SERVER='@REPORT@'
DOWNLOAD_BASE='@DOWNLOAD@'
VERSION='@VERSION@'
BUNDLED_ARCHES='@ARCHES@'
RELEASES='@RELEASES@'

DIR=/opt/categraf
ARCH=''
AUTH=''
FORCE=0
RESET=0
WORK=''
LOCK=''

say() { printf '%s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

usage() {
    cat <<'TEXT'
usage: install.sh [options]
  --server URL         address of the service to report to
  --download-base URL  address to fetch the package from
  --dir PATH           directory to install into (default /opt/categraf)
  --arch ARCH          amd64 or arm64 (default: this machine's)
  --auth USER:PASS     account for samples and heartbeats
  --force              install again, keeping the configuration
  --reset-config       with --force: start from a new conf/config.toml
  -h, --help           this text
TEXT
}

cleanup() {
    [ -z "$WORK" ] || rm -rf "$WORK"
    [ -z "$LOCK" ] || rmdir "$LOCK" 2>/dev/null || true
}

parse() {
    SERVER="${CATEGRAF_SERVER:-$SERVER}"
    while [ $# -gt 0 ]; do
        case "$1" in
            --server|--download-base|--dir|--arch|--auth)
                [ $# -ge 2 ] && [ -n "$2" ] || fail "$1 needs a value"
                case "$1" in
                    --server) SERVER="$2" ;;
                    --download-base) DOWNLOAD_BASE="$2" ;;
                    --dir) DIR="$2" ;;
                    --arch) ARCH="$2" ;;
                    --auth) AUTH="$2" ;;
                esac
                shift 2 ;;
            --force) FORCE=1; shift ;;
            --reset-config) RESET=1; shift ;;
            -h|--help) usage; exit 0 ;;
            *) fail "unknown option $1, see --help" ;;
        esac
    done
}

check_address() {
    local pattern='^https?://[][A-Za-z0-9._:/-]+$'
    [[ "$2" =~ $pattern ]] || fail "$1: got '$2', expected an address like http://host:port"
}

check() {
    [ "$(uname -s)" = Linux ] || fail 'only Linux is supported'
    [ "$(id -u)" = 0 ] || fail 'root is needed, run this with sudo'
    command -v curl >/dev/null || command -v wget >/dev/null || fail 'curl or wget is needed'
    SERVER="${SERVER%/}"
    DOWNLOAD_BASE="${DOWNLOAD_BASE%/}"
    [ -n "$SERVER" ] || fail 'the address to report to is not known, give it with --server'
    check_address --server "$SERVER"
    [ -z "$DOWNLOAD_BASE" ] || check_address --download-base "$DOWNLOAD_BASE"
    [ -z "$AUTH" ] || [[ "$AUTH" == *:* ]] || fail '--auth: expected USER:PASS'
    case "$DIR" in /*) ;; *) DIR="$PWD/$DIR" ;; esac
    DIR="${DIR%/}"
    [ -n "$DIR" ] || fail '--dir: the root directory is no place to install into'
    if [ -z "$ARCH" ]; then
        case "$(uname -m)" in
            x86_64|amd64) ARCH=amd64 ;;
            aarch64|arm64) ARCH=arm64 ;;
            *) fail "processor $(uname -m) is not supported" ;;
        esac
    fi
    [ "$ARCH" = amd64 ] || [ "$ARCH" = arm64 ] || fail "--arch: got '$ARCH', expected amd64 or arm64"
}

lock() {
    mkdir -p "$(dirname "$DIR")"
    mkdir "$DIR.lock" 2>/dev/null || fail "another installation is running, or one was killed: remove $DIR.lock then"
    LOCK="$DIR.lock"
    WORK="$(mktemp -d)"
}

reports_to_server() {
    local config="$DIR/conf/config.toml"
    [ -f "$config" ] &&
        grep -qF "url = \"$SERVER/rw/v1/write\"" "$config" &&
        grep -qF "url = \"$SERVER/v1/svc/heartbeat\"" "$config"
}

fetch() {
    say "fetching $1"
    if command -v curl >/dev/null; then
        curl -fsSL --connect-timeout 10 --max-time 600 -o "$2" "$1"
    else
        wget -q -T 30 -O "$2" "$1"
    fi
}

unpack() {
    rm -rf "$WORK/unpacked"
    mkdir "$WORK/unpacked"
    tar -xzf "$WORK/package.tar.gz" -C "$WORK/unpacked" 2>/dev/null || return 1
    local entries=("$WORK/unpacked"/*)
    [ ${#entries[@]} -eq 1 ] && [ -f "${entries[0]}/categraf" ] || return 1
    PACKAGE="${entries[0]}"
}

obtain() {
    local name="categraf-$VERSION-linux-$ARCH.tar.gz"
    if [ -n "$DOWNLOAD_BASE" ]; then
        fetch "$DOWNLOAD_BASE/api/svc/agents/categraf/download?arch=$ARCH" "$WORK/package.tar.gz" && unpack && return
        say "the service has no usable package for $ARCH (it has: ${BUNDLED_ARCHES:-none})"
    fi
    [ -n "$RELEASES" ] || fail 'no package to install, and no public release address is configured'
    fetch "$RELEASES/$VERSION/$name" "$WORK/package.tar.gz" || fail "no package at $RELEASES/$VERSION/$name"
    unpack || fail "$name is no collector package"
}

place() {
    local backup=''
    if [ -d "$DIR/conf" ]; then
        backup="$DIR.conf-backup-$(date +%Y%m%d%H%M%S)"
        cp -a "$DIR/conf" "$backup"
        say "the present configuration is kept in $backup"
    fi
    if [ -x "$DIR/categraf" ]; then
        (cd "$DIR" && ./categraf --stop >/dev/null 2>&1) || true
    fi
    mkdir -p "$DIR"
    cp -a --remove-destination "$PACKAGE/." "$DIR/"
    chmod 755 "$DIR/categraf"
    if [ -n "$backup" ]; then
        [ "$RESET" = 0 ] || mv "$DIR/conf/config.toml" "$WORK/config.toml"
        cp -a "$backup/." "$DIR/conf/"
        [ "$RESET" = 0 ] || mv "$WORK/config.toml" "$DIR/conf/config.toml"
    fi
}

# A text as it stands between double quotes in TOML.
toml() { printf '%s' "$1" | sed 's/[\\"]/\\&/g'; }

configure() {
    local config="$DIR/conf/config.toml"
    [ -f "$config" ] || fail "the package has no conf/config.toml"
    umask 077
    # Values travel in the environment: awk would take backslashes in arguments for escapes.
    WRITE_URL="$SERVER/rw/v1/write" BEAT_URL="$SERVER/v1/svc/heartbeat" \
    USER_TEXT="$(toml "${AUTH%%:*}")" PASS_TEXT="$(toml "${AUTH#*:}")" GIVEN="$AUTH" \
    awk '
        function is(key, commented) {
            return $0 ~ ("^[ \t]*" (commented ? "#*[ \t]*" : "") key "[ \t]*=")
        }
        function put(key, value) {
            if (!(key in done)) print key " = \"" value "\""
            done[key] = 1
        }
        function leave() {
            if (section == "") return
            put("url", url)
            if (ENVIRON["GIVEN"] != "") {
                put("basic_auth_user", ENVIRON["USER_TEXT"])
                put("basic_auth_pass", ENVIRON["PASS_TEXT"])
            }
            section = ""
        }
        /^[ \t]*\[/ {
            leave()
            split("", done)
            header = $0
            gsub(/[ \t]|#.*/, "", header)
            if (header == "[[writers]]" && !writers++) { section = header; url = ENVIRON["WRITE_URL"] }
            if (header == "[heartbeat]") { section = header; url = ENVIRON["BEAT_URL"] }
            print
            next
        }
        section != "" && is("url", 0) { put("url", url); next }
        section == "[heartbeat]" && is("enable", 0) { print "enable = true"; next }
        section != "" && ENVIRON["GIVEN"] != "" && is("basic_auth_user", 1) {
            put("basic_auth_user", ENVIRON["USER_TEXT"]); next
        }
        section != "" && ENVIRON["GIVEN"] != "" && is("basic_auth_pass", 1) {
            put("basic_auth_pass", ENVIRON["PASS_TEXT"]); next
        }
        { print }
        END { leave() }
    ' "$config" >"$WORK/config.new"
    cat "$WORK/config.new" >"$config"
    chmod 600 "$config"
    reports_to_server || fail "$config has no [[writers]] and [heartbeat] sections to write the address into"
}

start() {
    cd "$DIR"
    if [ -d /run/systemd/system ]; then
        ./categraf --install >/dev/null 2>&1 || say 'the service is installed already'
        ./categraf --start
        systemctl is-active --quiet categraf || fail 'the service does not run, see: journalctl -u categraf'
    else
        say 'no systemd here: the collector is started in the background and not at boot'
        nohup ./categraf >>categraf.log 2>&1 </dev/null &
    fi
}

main() {
    parse "$@"
    check
    trap cleanup EXIT
    lock
    if [ -x "$DIR/categraf" ] && [ "$FORCE" = 0 ]; then
        reports_to_server || fail "$DIR has a collector that reports elsewhere, use --force to change it"
        say "already installed, reporting to $SERVER"
        return
    fi
    obtain
    place
    configure
    start
    say "the collector $VERSION is installed in $DIR and reports to $SERVER"
}

main "$@"
