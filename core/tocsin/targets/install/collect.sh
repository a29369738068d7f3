#!/usr/bin/env bash
# Adds or replaces the configuration of one input of an installed collector, after trying it.
# Everything happens in functions, so that a script which was cut off on its way does nothing.
set -euo pipefail

INPUT=''
CONTENT=''
DIR=''
SECONDS_LIMIT=15
TEST=1
RESTART=1
WORK=''

say() { printf '%s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

usage() {
    cat <<'TEXT'
usage: collect.sh --input NAME --conf-b64 TEXT [options]
  --input NAME         the input to configure
  --conf-b64 TEXT      its configuration (TOML) in base64
  --dir PATH           directory of the collector (default: that of its service, else /opt/categraf)
  --test-timeout SEC   seconds the trial may take (default 15)
  --skip-test          do not try the configuration
  --no-restart         do not restart the service
  -h, --help           this text
TEXT
}

parse() {
    while [ $# -gt 0 ]; do
        case "$1" in
            --input|--conf-b64|--dir|--test-timeout)
                [ $# -ge 2 ] && [ -n "$2" ] || fail "$1 needs a value"
                case "$1" in
                    --input) INPUT="$2" ;;
                    --conf-b64) CONTENT="$2" ;;
                    --dir) DIR="$2" ;;
                    --test-timeout) SECONDS_LIMIT="$2" ;;
                esac
                shift 2 ;;
            --skip-test) TEST=0; shift ;;
            --no-restart) RESTART=0; shift ;;
            -h|--help) usage; exit 0 ;;
            *) fail "unknown option $1, see --help" ;;
        esac
    done
    [[ "$INPUT" =~ ^[a-z0-9_]{1,64}$ ]] || fail "--input: got '$INPUT', expected 1 to 64 of a-z, 0-9 and _"
    [ -n "$CONTENT" ] || fail '--conf-b64 is needed'
    [[ "$SECONDS_LIMIT" =~ ^[0-9]{1,3}$ ]] || fail "--test-timeout: got '$SECONDS_LIMIT', expected up to 999 seconds"
}

find_collector() {
    if [ -z "$DIR" ] && command -v systemctl >/dev/null; then
        DIR="$(systemctl show -p WorkingDirectory --value categraf 2>/dev/null || true)"
    fi
    DIR="${DIR:-/opt/categraf}"
    [ -x "$DIR/categraf" ] || fail "no collector in $DIR, give its directory with --dir"
}

# Takes the new file away and puts the previous one back.
restore() {
    if [ -n "$1" ]; then mv -f "$1" "$2"; else rm -f "$2"; fi
}

try() {
    say "trying the input for up to $SECONDS_LIMIT s"
    (cd "$DIR" && timeout "$SECONDS_LIMIT" ./categraf --test --inputs "$INPUT" 2>&1) >"$WORK/output" || true
    grep -qE '^[0-9]{9,}' "$WORK/output"
}

main() {
    parse "$@"
    find_collector
    WORK="$(mktemp -d)"
    trap 'rm -rf "$WORK"' EXIT
    umask 077
    local folder="$DIR/conf/input.$INPUT" backup='' file
    file="$folder/$INPUT.toml"
    printf '%s' "$CONTENT" | base64 -d >"$WORK/new.toml" 2>/dev/null || fail '--conf-b64: this is no base64'
    mkdir -p "$folder"
    if [ -f "$file" ]; then
        backup="$file.bak-$(date +%Y%m%d%H%M%S)"
        cp -a "$file" "$backup"
    fi
    cat "$WORK/new.toml" >"$file"
    chmod 600 "$file"
    if [ "$TEST" = 1 ] && ! try; then
        restore "$backup" "$file"
        tail -n 20 "$WORK/output" >&2
        fail 'the input gave no samples; the previous configuration is back'
    fi
    if [ "$RESTART" = 1 ] && [ -d /run/systemd/system ]; then
        systemctl restart categraf || fail 'the service could not be restarted, see: journalctl -u categraf'
    fi
    say "input $INPUT is configured in $file"
}

main "$@"
