#!/usr/bin/env bash
# What the action does: COMPARE (on ENGINES, one a line), SEAL (of MODEL, on ENGINES) or CONFORMANCE; pages go to PAGES,
# the short form into the summary of the job. Ends as the command ends: 0 agree, 1 differ or failed, 2 trouble.
set -uo pipefail
if [ -z "${COMPARE:-}${SEAL:-}${CONFORMANCE:-}" ]; then
  echo "samebits-action: give compare, seal or conformance" >&2
  exit 2
fi
mkdir -p "$PAGES"
worst=0

# A finding as a page, in short into the summary, and what deviates as annotations of the run.
publish() {
  samebits report "$1" -o "${1%.json}.html" && samebits report "$1" --markdown >> "$GITHUB_STEP_SUMMARY" \
    && samebits report "$1" --as github
}

# A word for the caller, by the status of what ran: same, other, trouble.
say_verdict() {
  echo "verdict=$(case $1 in 0) echo "$2" ;; 1) echo "$3" ;; *) echo trouble ;; esac)" >> "$GITHUB_OUTPUT"
}

engines=()
while IFS= read -r engine; do
  [ -n "$engine" ] && engines+=(--on "$engine")
done <<< "${ENGINES:-}"

if [ -n "${COMPARE:-}" ]; then
  # An empty list is an unbound one to the bash of macOS.
  samebits compare "$COMPARE" ${engines[@]+"${engines[@]}"} --json > "$PAGES/compare.json"
  worst=$?
  verdict=trouble
  if [ "$worst" -lt 2 ]; then
    verdict=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["verdict"])' "$PAGES/compare.json")
    publish "$PAGES/compare.json" || worst=2
  fi
  echo "verdict=$verdict" >> "$GITHUB_OUTPUT"
fi

if [ -n "${SEAL:-}" ]; then
  sealed=0
  # One check for each engine; the seal's own where none is named.
  [ "${#engines[@]}" -gt 0 ] || engines=(--on "")
  for ((at = 1; at < ${#engines[@]}; at += 2)); do
    found="$PAGES/check$(((at + 1) / 2)).json"
    samebits check "$SEAL" ${MODEL:+"$MODEL"} ${engines[at]:+--on "${engines[at]}"} --json > "$found"
    status=$?
    [ "$status" -lt 2 ] && { publish "$found" || status=2; }
    [ "$status" -gt "$sealed" ] && sealed=$status
  done
  [ -n "${COMPARE:-}" ] || say_verdict "$sealed" same different
  [ "$sealed" -gt "$worst" ] && worst=$sealed
fi

if [ -n "${CONFORMANCE:-}" ]; then
  cases=$(mktemp -d)
  # Several paths, as words.
  # shellcheck disable=SC2086
  python -m pytest --samebits-cases "$cases" $CONFORMANCE
  status=$?
  for case in "$cases"/*.npz; do
    [ -e "$case" ] || continue
    cp "$case" "$PAGES/"
    found="$PAGES/$(basename "$case" .npz).json"
    samebits explain "$case" --json > "$found"
    [ $? -lt 2 ] && publish "$found"
  done
  # pytest's own: 1, tests failed; more, it could not run them.
  [ "$status" -gt 1 ] && status=2
  [ "$status" -gt "$worst" ] && worst=$status
  [ -n "${COMPARE:-}${SEAL:-}" ] || say_verdict "$status" passed failed
fi
exit "$worst"
